"""All that tritree computes for a batch of scores."""

import torch
from torch import Tensor

import tritree
from tritree import TreeCRF


def everything(
    scores: Tensor, lengths: Tensor | None = None, single_root: bool = False, backend: str | None = None
) -> dict[str, Tensor]:
    """All results for a batch, by name; gradients of what is differentiable too. Each kernel runs once or twice."""
    options = {"single_root": single_root, "backend": backend}
    results = {"inside alone": tritree.log_partition(scores, lengths, **options)}
    scores = scores.clone().requires_grad_()
    best, heads = tritree.viterbi(scores, lengths, **options)
    k_best, k_heads = tritree.topk(scores, lengths, 3, **options)
    dist = TreeCRF(scores, lengths, validate_args=False, **options)
    results |= {
        "log_partition": dist.log_partition,
        "marginals": dist.marginals,
        "best": best,
        "heads": heads,
        "k best": k_best,
        "k heads": k_heads,
        "mbr": dist.mbr,
        "entropy": dist.entropy(),
        "log_prob": dist.log_prob(heads),
        "max_marginals": dist.max_marginals,
        "samples": tritree.sample(scores, lengths, 2, generator=torch.Generator().manual_seed(0), **options),
    }
    assert (
        torch.equal(results["inside alone"], results["log_partition"].detach())
        or results["log_partition"].isnan().any()
    )
    direction = torch.linspace(-1, 1, scores.shape[-1], dtype=best.dtype)
    for name, value in [
        ("log_partition", results["log_partition"]),
        ("marginals", results["marginals"] @ direction),
        ("best", best),
        ("k best", k_best),
        ("entropy", results["entropy"]),
        ("log_prob", results["log_prob"]),
    ]:
        (results[f"gradient of {name}"],) = torch.autograd.grad(value.sum(), scores, retain_graph=True)
    return {name: value.detach() for name, value in results.items()}
