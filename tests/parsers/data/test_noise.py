import pytest
import torch

from parsers.data.noise import Noise, dropout


def test_noise():
    noise = [Noise(("a", key), 1000, slice(None), torch.device("cpu")) for key in (1, 1, 2)]
    drawn = [n.uniform(50) for n in noise]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    x = torch.ones(1000, 50)
    dropped = dropout(x, 0.25, noise[0])
    assert dropped.unique().tolist() == [0, pytest.approx(4 / 3)] and dropped.mean() == pytest.approx(1, abs=0.02)
    assert dropout(x, 0.25, None) is x and dropout(x, 0.0, noise[0]) is x
    assert noise[0].gumbel(50).mean() == pytest.approx(0.5772, abs=0.02)
