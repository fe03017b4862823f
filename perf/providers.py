"""The libraries that are measured: tritree's backends, and the peers if they are installed (extra `perf`).

A provider turns a batch into one callable per operation. Inputs are converted to the library's layout before the clock
runs; each callable builds the library's distribution anew, as a training step does. `answer` converts a result back to
tritree's layout, so that it can be checked: no time is reported for a wrong one.
"""

import importlib.util
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

import tritree
from perf.cases import OPERATIONS, K, Size
from perf.timing import take_turns
from tritree.conventions import live_words

Step = Callable[[], object]


class Tritree:
    def __init__(self, backend: str):
        self.name = f"tritree-{backend}"
        self.backend = backend
        self.missing = None
        if backend == "triton" and not torch.cuda.is_available():
            self.missing = "tritree's Triton kernels are measured on a GPU: there is none here"

    def steps(self, scores: Tensor, lengths: Tensor) -> dict[str, Step]:
        leaf = scores.clone().requires_grad_()

        def marginals():
            dist = tritree.TreeCRF(scores, lengths, backend=self.backend, validate_args=False)
            return dist.log_partition, dist.marginals

        def gradient():
            log_z = tritree.TreeCRF(leaf, lengths, backend=self.backend, validate_args=False).log_partition
            return log_z, torch.autograd.grad(log_z.sum(), leaf)[0]

        return {
            "inside": lambda: tritree.log_partition(scores, lengths, backend=self.backend),
            "marginals": marginals,
            "gradient": gradient,
            "viterbi": lambda: tritree.viterbi(scores, lengths, backend=self.backend)[1],
            "topk": lambda: tritree.topk(scores, lengths, K, backend=self.backend)[1],
        }

    def answer(self, operation: str, result):
        return result


class Supar:
    """Scores are [modifier, head]; marginals are computed by autograd through the chart."""

    name = "supar"

    def __init__(self):
        self.missing = None if importlib.util.find_spec("supar") else "supar is not installed: pip install '.[perf]'"

    def steps(self, scores: Tensor, lengths: Tensor) -> dict[str, Step]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from supar.structs.tree import DependencyCRF
        self.words = live_words(lengths, scores.shape[-1])
        transposed = scores.mT.contiguous()
        leaf = transposed.clone().requires_grad_()

        def crf(s):
            return DependencyCRF(s, lengths, multiroot=True)

        def marginals():
            dist = crf(transposed)
            return dist.log_partition, dist.marginals

        def gradient():
            log_z = crf(leaf).log_partition
            return log_z, torch.autograd.grad(log_z.sum(), leaf)[0]

        return {
            "inside": lambda: crf(transposed).log_partition,
            "marginals": marginals,
            "gradient": gradient,
            "viterbi": lambda: crf(transposed).argmax,
            "topk": lambda: crf(transposed).topk(K),
        }

    def answer(self, operation: str, result):
        if operation in ("marginals", "gradient"):
            return result[0], result[1].mT
        if operation == "viterbi":
            return torch.where(self.words, result, -1)
        if operation == "topk":
            return torch.where(self.words.unsqueeze(1), result.movedim(-1, 1), -1)
        return result


class TorchStruct:
    """No row for ROOT: its scores are on the diagonal. Potentials must require a gradient."""

    name = "torch-struct"

    def __init__(self):
        found = importlib.util.find_spec("torch_struct")
        self.missing = None if found else "torch-struct is not installed: pip install '.[perf]'"

    def steps(self, scores: Tensor, lengths: Tensor) -> dict[str, Step]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch_struct import DependencyCRF
        self.N = scores.shape[-1]
        potentials = scores[:, 1:, 1:].clone()
        potentials.diagonal(dim1=-2, dim2=-1).copy_(scores[:, 0, 1:])
        leaf = potentials.clone().requires_grad_()

        def crf():
            return DependencyCRF(leaf, lengths)

        def marginals():
            dist = crf()
            return dist.partition, dist.marginals

        def gradient():
            log_z = crf().partition
            return log_z, torch.autograd.grad(log_z.sum(), leaf)[0]

        return {
            "inside": lambda: crf().partition,
            "marginals": marginals,
            "gradient": gradient,
            "viterbi": lambda: crf().argmax,
            "topk": lambda: crf().topk(K),
        }

    def answer(self, operation: str, result):
        if operation in ("marginals", "gradient"):
            return result[0], self._with_root(result[1])
        if operation == "viterbi":
            arcs = self._with_root(result)
            return torch.where(arcs.sum(-2) > 0, arcs.argmax(-2), -1)
        if operation == "topk":
            return torch.stack([self.answer("viterbi", tree) for tree in result], 1)
        return result

    def _with_root(self, arcs: Tensor) -> Tensor:
        whole = arcs.new_zeros(arcs.shape[0], self.N, self.N)
        root = arcs.diagonal(dim1=-2, dim2=-1)
        whole[:, 0, 1:] = root
        whole[:, 1:, 1:] = arcs - torch.diag_embed(root)
        return whole


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def providers() -> list:
    ours = Tritree("triton") if device() == "cuda" else Tritree("numba")
    return [ours, Supar(), TorchStruct()]


def expected(operation: str, scores: Tensor, lengths: Tensor):
    """The right answer, by the rules in float64 torch."""
    s = scores.double().cpu()
    dist = tritree.TreeCRF(s, lengths.cpu(), backend="reference", validate_args=False)
    if operation == "inside":
        return dist.log_partition
    if operation == "viterbi":
        return dist.mode
    if operation == "topk":
        return tritree.topk(s, lengths.cpu(), K)[1]  # the reference finds the same trees (tests), but takes minutes
    return dist.log_partition, dist.marginals


def check(operation: str, answer, right) -> None:
    """Raises AssertionError if a result is wrong by more than float32 rounding."""
    if operation in ("viterbi", "topk"):
        torch.testing.assert_close(answer.cpu(), right)
        return
    answer, right = ((x,) if isinstance(x, Tensor) else x for x in (answer, right))
    for actual, exact in zip(answer, right, strict=True):
        torch.testing.assert_close(actual.detach().cpu().double(), exact, rtol=1e-4, atol=1e-4)


def compare(
    providers: list, size: Size, operation: str, seconds: float, missing: set[str], on="cpu"
) -> dict[str, float]:
    """Best seconds per call of each provider, measured in alternation; the first one is tritree. A wrong answer gets
    no time, and is an AssertionError if it is tritree's. ``missing`` gets why there is no time."""
    scores, lengths = size.batch(on)
    right = expected(operation, scores, lengths)
    steps = {}
    for provider in providers:
        if provider.missing:
            missing.add(provider.missing)
            continue
        step = provider.steps(scores, lengths)[operation]
        try:
            check(operation, provider.answer(operation, step()), right)
        except AssertionError:
            if provider is providers[0]:
                raise
            missing.add(f"{provider.name}, {size.label}, {OPERATIONS[operation]}: a wrong answer, so no time")
            continue
        steps[provider.name] = step
    return {name: timing.best for name, timing in take_turns(steps, seconds).items()}
