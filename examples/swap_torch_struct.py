"""A training loop written for torch-struct, on tritree's kernels: one changed import.

pip install torch-struct==0.5, then python examples/swap_torch_struct.py

The loop is that of torch-struct's example for dependencies: potentials without ROOT, whose arcs are on the diagonal,
and one-hot trees. It is run with either class on the built-in synthetic treebank: same losses and trees.
"""

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

sys.path.insert(0, str(Path(__file__).parent.parent))  # tritree and parsers, where they are not installed

import torch_struct

import tritree.compat.torch_struct
from parsers.data import synthetic


class Model(nn.Module):
    """Tags [B, N] → log potentials [B, N, N]."""

    def __init__(self, tags: int, size: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(tags, size)
        self.lstm = nn.LSTM(size, size, bidirectional=True, batch_first=True)
        self.bilinear = nn.Linear(2 * size, 2 * size)
        self.root = nn.Linear(2 * size, 1)

    def forward(self, tags):
        out, _ = self.lstm(self.embedding(tags))
        return self.bilinear(out) @ out.mT + torch.diag_embed(self.root(out).squeeze(-1))


def train(DependencyCRF, steps: int) -> tuple[list[float], int]:
    """The losses, and the number of wrong heads in the end."""
    torch.manual_seed(0)
    sentences = synthetic.sentences("train", count=32)
    numbers: dict[str, int] = {}
    tags = [torch.tensor([numbers.setdefault(tag, len(numbers) + 1) for tag in s.upos]) for s in sentences]
    heads = pad_sequence([torch.tensor(s.heads) for s in sentences], batch_first=True)
    tags, lengths = pad_sequence(tags, batch_first=True), torch.tensor([len(s) for s in sentences])
    model = Model(len(numbers) + 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        dist = DependencyCRF(model(tags), lengths=lengths)
        labels = dist.struct.to_parts(heads, lengths=lengths).type_as(dist.log_potentials)
        loss = -dist.log_prob(labels).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    wrong = (dist.argmax - labels).abs().sum() / 2
    return losses, int(wrong)


def main(steps: int = 10) -> dict[str, tuple[list[float], int]]:
    results = {}
    for name, module in (("torch-struct", torch_struct), ("tritree", tritree.compat.torch_struct)):
        train(module.DependencyCRF, 1)  # compiles
        begin = time.perf_counter()
        results[name] = losses, wrong = train(module.DependencyCRF, steps)
        seconds = (time.perf_counter() - begin) / steps
        text = " ".join(f"{loss:.3f}" for loss in losses)
        print(f"{name:12} {seconds:.3f} s per step; {wrong} heads wrong; losses {text}")
    return results


if __name__ == "__main__":
    main()
