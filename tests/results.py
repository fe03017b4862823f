"""All that tritree computes for a batch of scores, but for relaxed trees, which have tests of their own."""

import torch
from torch import Tensor

import tritree
from tests.operators import FUNCTIONS
from tritree import TreeCRF


def everything(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False, backend: str | None = None
) -> dict[str, Tensor]:
    """All results for a batch, by name; and the gradients of those that have one. Each kernel runs a few times."""
    options = {"single_root": single_root, "backend": backend}
    results = {"inside alone": tritree.log_partition(scores, lengths, **options)}
    scores = scores.clone().requires_grad_()
    for row in FUNCTIONS:
        if row.has_single_root:
            results |= row.call_by_name(scores, lengths, single_root, backend)
    dist = TreeCRF(scores, lengths, validate_args=False, **options)
    results |= {"mbr": dist.mbr, "entropy": dist.entropy(), "log_prob": dist.log_prob(results["heads"])}
    for name, again in [
        ("log_partition", results["inside alone"]),
        ("log_partition", dist.log_partition),
        ("marginals", dist.marginals),
        ("max_marginals", dist.max_marginals),
    ]:
        assert torch.equal(results[name], again) or again.isnan().any(), name
    direction = torch.linspace(-1, 1, scores.shape[-1], dtype=results["best"].dtype)
    differentiable = [next(iter(row.results)) for row in FUNCTIONS if row.derivatives and row.has_single_root]
    for name in (*differentiable, "entropy", "log_prob"):
        value = results[name] @ direction if name == "marginals" else results[name]
        (results[f"gradient of {name}"],) = torch.autograd.grad(value.sum(), scores, retain_graph=True)
    return {name: value.detach() for name, value in results.items()}
