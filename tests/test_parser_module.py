"""A parser with a tritree layer, in what torch does with modules: compilation, export, data-parallel training."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import tritree


class Biaffine(nn.Module):
    """States [B, N, size], lengths [B] and heads [B, N] → losses [B], marginals [B, N, N] and the best trees [B, N]."""

    def __init__(self, size: int):
        super().__init__()
        self.head, self.modifier = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, states: Tensor, lengths: Tensor, heads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.head(states) @ self.modifier(states).mT
        crf = tritree.TreeCRF(scores, lengths, single_root=True, validate_args=False)
        return -crf.log_prob(heads), crf.marginals, crf.mode


def parser_and_batch(B: int = 4, N: int = 7, size: int = 5) -> tuple[Biaffine, tuple[Tensor, Tensor, Tensor]]:
    torch.manual_seed(0)
    parser = Biaffine(size).double()
    states, lengths = torch.randn(B, N, size).double(), torch.tensor([6, 3, 1, 4])[:B]
    heads = tritree.sample(torch.randn(B, N, N), lengths, single_root=True)[0]
    return parser, (states, lengths, heads)


def gradients(parser: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for parameter in parser.parameters()]


def test_compiled_without_graph_breaks():
    parser, batch = parser_and_batch()
    expected = parser(*batch)
    (expected[0].mean() + expected[1].square().sum()).backward()
    right = gradients(parser)
    parser.zero_grad()
    found = torch.compile(parser, fullgraph=True, backend="aot_eager")(*batch)
    (found[0].mean() + found[1].square().sum()).backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(parser), right)


def test_export():
    """Also for other numbers of sentences and words than those of the example."""
    parser, batch = parser_and_batch()
    B, N = torch.export.Dim("B", min=2), torch.export.Dim("N", min=2)
    shapes = {"states": {0: B, 1: N}, "lengths": {0: B}, "heads": {0: B, 1: N}}
    exported = torch.export.export(parser, batch, dynamic_shapes=shapes).module()
    torch.testing.assert_close(exported(*batch), parser(*batch))
    states, lengths, heads = batch
    shorter = states[1:3, :5], lengths[1:3], heads[1:3, :5]
    torch.testing.assert_close(exported(*shorter), parser(*shorter))


def test_data_parallel(tmp_path):
    """The gradient of two processes, each with half of the batch, is that of one with all of it."""
    parser, batch = parser_and_batch()
    parser(*batch)[0].mean().backward()
    torch.multiprocessing.spawn(_train_half, (str(tmp_path / "meeting point"), gradients(parser)), nprocs=2)


def _train_half(rank: int, meeting_point: str, expected: list[Tensor]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=2)
    parser, batch = parser_and_batch()
    parallel = DistributedDataParallel(parser)
    parallel(*(tensor[rank::2] for tensor in batch))[0].mean().backward()
    torch.testing.assert_close(gradients(parser), expected)
    dist.destroy_process_group()
