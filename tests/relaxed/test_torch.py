"""The relaxed tree, compiled. (tests/test_torch.py has what is the same for all operators.)"""

import torch

import tritree


def test_compile():
    def decoder(s, lengths, temperature):
        return tritree.relaxed_tree(s.tanh(), lengths, temperature=temperature).square().sum()

    scores, lengths = torch.randn(2, 5, 5), torch.tensor([4, 3])
    compiled = torch.compile(decoder, fullgraph=True, backend="aot_eager")
    for temperature in (1.0, 0.5, 0.25):  # annealed
        outcomes = []
        for function in (decoder, compiled):
            s = scores.clone().requires_grad_()
            loss = function(s, lengths, temperature)
            loss.backward()
            outcomes.append((loss.detach(), s.grad))
        torch.testing.assert_close(*outcomes)
