"""supar's CRF parser with its tree layer taken out and tritree's put in: one assignment.

pip install supar==1.1.4, then python examples/swap_supar.py

Trains supar's CRFDependencyModel on the built-in synthetic treebank twice, for a few steps: as it is, and on tritree's
kernels. The losses are the same up to rounding, the time is not.
"""

import sys
import time
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

sys.path.insert(0, str(Path(__file__).parent.parent))  # tritree and parsers, where they are not installed

import supar.models.dep
from supar.models import CRFDependencyModel

import tritree.compat.supar
from parsers.data import synthetic

PAD, BOS = 0, 1


def batch(count: int):
    """Words, tags, arcs, labels and the mask of the words, [B, N], as supar's parser has them; BOS is ROOT."""
    sentences = synthetic.sentences("train", count=count)
    columns = []
    for name in ("forms", "upos"):
        numbers: dict[str, int] = {}
        rows = [[BOS, *(numbers.setdefault(x, len(numbers) + 2) for x in getattr(s, name))] for s in sentences]
        columns.append(pad_sequence([torch.tensor(row) for row in rows], batch_first=True))
    words, tags = columns
    arcs = pad_sequence([torch.tensor([0, *s.heads]) for s in sentences], batch_first=True)
    mask = words.ne(PAD)
    mask[:, 0] = False
    return words, tags, arcs, torch.zeros_like(arcs), mask


def train(steps: int) -> list[float]:
    torch.manual_seed(0)
    words, tags, arcs, rels, mask = batch(count=32)
    model = CRFDependencyModel(
        n_words=int(words.max()) + 1,
        n_tags=int(tags.max()) + 1,
        n_rels=2,
        feat=["tag"],
        n_lstm_hidden=100,
        n_lstm_layers=1,
        proj=True,
    )
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    losses = []
    for _ in range(steps):
        s_arc, s_rel = model(words, [tags])
        loss, _ = model.loss(s_arc, s_rel, arcs, rels, mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main(steps: int = 10) -> dict[str, list[float]]:
    losses = {}
    for name, crf in (("supar", supar.models.dep.DependencyCRF), ("tritree", tritree.compat.supar.DependencyCRF)):
        supar.models.dep.DependencyCRF = crf  # the swap; for prediction also in supar.parsers.dep
        train(1)  # compiles
        begin = time.perf_counter()
        losses[name] = train(steps)
        seconds = (time.perf_counter() - begin) / steps
        print(f"{name:8} {seconds:.3f} s per step; losses " + " ".join(f"{loss:.4f}" for loss in losses[name]))
    return losses


if __name__ == "__main__":
    main()
