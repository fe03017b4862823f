"""Where torch no longer has a private name that tritree uses, results stay right."""

import functools
import importlib
from pathlib import Path

import pytest
import torch
from torch.autograd import forward_ad

import tritree
from tests.operators import FUNCTIONS
from tests.results import everything
from tritree import TreeCRF, operators, torch_private

NAMES = {
    "_are_functorch_transforms_active": torch._C,
    "_len_torch_dispatch_stack": torch._C,
    "_current_level": forward_ad,
}


@pytest.fixture(params=NAMES)
def missing(request, monkeypatch):
    """The name is away while torch_private is imported. Torch itself needs it, and has it again after that."""
    expected()
    with monkeypatch.context() as patch:
        patch.delattr(NAMES[request.param], request.param)
        importlib.reload(torch_private)
    yield request.param
    importlib.reload(torch_private)


def batch():
    return torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 2, 0])


@functools.cache
def expected():
    """Computed before a name is taken away."""
    return everything(*batch())


def test_results(missing):
    assert operators.bypasses_dispatcher(batch()[0]) == (missing == "_current_level")
    for name, value in everything(*batch()).items():
        assert torch.equal(value, expected()[name]), name


@pytest.mark.parametrize("row", [row for row in FUNCTIONS if not row.random], ids=str)
def test_vmap_and_compilation(missing, row):
    scores, lengths = batch()
    expected = row.call(scores, lengths)
    mapped = torch.vmap(lambda s, n: row.call(s, n))(scores, lengths)
    torch._dynamo.reset()
    compiled = torch.compile(lambda s, n: row.call(s, n), fullgraph=True, backend="aot_eager")(scores, lengths)
    for found in (mapped, compiled):
        assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # torch's own, inside make_dual
def test_forward_mode_is_refused(missing):
    scores, lengths = batch()
    with forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match=r"autograd\.grad"):
            tritree.log_partition(forward_ad.make_dual(scores, scores), lengths)
        assert torch.equal(tritree.log_partition(scores, lengths), expected()["log_partition"])


def test_values_are_checked_where_it_is_asked_for(missing):
    scores, lengths = batch()
    with pytest.raises(ValueError, match=r"lengths\[0\] is 5"):
        tritree.marginals(scores, lengths + 1)
    scores[0, 1, 2] = torch.nan
    with pytest.raises(ValueError, match="sentence 0: the score of arc 1 → 2 is nan"):
        TreeCRF(scores, lengths, validate_args=True)


def test_no_other_file_uses_private_names():
    """Of torch's modules; what torch.distributions gives to its subclasses is theirs to use."""
    for path in sorted(Path(tritree.__file__).parent.rglob("*.py")):
        if path.name != "torch_private.py":
            text = path.read_text("utf-8")
            assert "torch._" not in text and "forward_ad" not in text and "torch.library._" not in text, path
