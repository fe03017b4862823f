"""The stand-ins as objects: what they keep, leave alone, refuse, and do not need."""

import subprocess
import sys

import pytest
import torch

import tritree


def test_arguments_stay_as_they_are(library):
    """No gradient is switched on, and nothing is written."""
    scores, lengths = library.scores(torch.randn(2, 5, 5)).clone(), torch.tensor([4, 2])
    before = scores.clone()
    dist = library.crf(scores, lengths)
    results = [getattr(dist, library.log_z), dist.marginals, dist.max, dist.entropy, dist.kl(dist), dist.kmax(2)]
    results.append(dist.log_prob(dist.argmax))
    assert not scores.requires_grad and torch.equal(scores, before) and scores._version == 0
    assert not any(r.requires_grad for r in results)


def test_properties_are_computed_once(library):
    dist = library.crf(library.scores(torch.randn(2, 5, 5)), torch.tensor([4, 2]))
    for name in (library.log_z, "marginals", "max", "argmax", "mode", "entropy"):
        assert getattr(dist, name) is getattr(dist, name)


def test_a_gradient_is_kept_under_no_grad(library):
    """As in the originals, which compute their properties with gradients in any mode."""
    scores = library.scores(torch.randn(2, 5, 5)).clone().requires_grad_()
    dist = library.crf(scores, torch.tensor([4, 2]))
    with torch.no_grad():
        log_z = getattr(dist, library.log_z)
    (gradient,) = torch.autograd.grad(log_z.sum(), scores)
    torch.testing.assert_close(gradient, dist.marginals.detach())


def test_what_does_not_fit_together(library):
    scores = library.scores(torch.randn(2, 5, 5))
    dist = library.crf(scores, torch.tensor([4, 2]))
    with pytest.raises(ValueError, match=r"differ in length: \[4, 2\] and \[4, 3\]"):
        dist.kl(library.crf(scores, torch.tensor([4, 3])))
    with pytest.raises(ValueError, match="differ in shape"):
        dist.cross_entropy(library.crf(library.scores(torch.randn(2, 4, 4)), torch.tensor([3, 2])))
    with pytest.raises(ValueError, match="the other distribution must be a tritree"):
        dist.kl(tritree.TreeCRF(torch.randn(2, 5, 5)))


def test_neither_library_is_needed():
    code = """
import sys
sys.modules["supar"] = sys.modules["torch_struct"] = None
import torch
from tritree.compat import supar, torch_struct
print(supar.DependencyCRF(torch.zeros(1, 3, 3)).argmax.tolist(), torch_struct.DependencyCRF(torch.zeros(1, 2, 2)).count)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[[0, 0, 1]] tensor([3.])"
