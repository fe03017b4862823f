"""A small demonstration of the library, until the parsers are here: learning arc scores from trees.

A random table says how much each kind of word likes each other kind as its head. Trees are drawn from it, exactly; a
table of zeros is then trained on the trees alone, by the likelihood of the tree-CRF, and parses as well as the truth.
"""

import argparse
import time

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tritree import TreeCRF

KINDS, WORDS, SENTENCES = 12, 20, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["lap"], default="lap", help="the parsers are not here yet: no effect")
    parser.add_argument("--fp16", action="store_true", help="give the tree layer half-precision scores")
    parser.add_argument("--steps", type=int, default=150)
    args = parser.parse_args()
    console = Console()
    console.print("The parsers are not built yet. This demonstrates the library: learning arc scores from trees.\n")

    torch.manual_seed(0)
    dtype = torch.float16 if args.fp16 else torch.float32
    truth = 3 * torch.randn(2, KINDS + 1, KINDS + 1)  # arcs to the left and to the right; kind 0 is ROOT
    kinds = torch.randint(1, KINDS + 1, (SENTENCES, WORDS + 1))
    kinds[:, 0] = 0
    lengths = torch.randint(WORDS // 2, WORDS + 1, (SENTENCES,))
    position = torch.arange(WORDS + 1)
    right = (position[:, None] < position).long()

    def crf(table: torch.Tensor) -> TreeCRF:
        scores = table[right, kinds[:, :, None], kinds[:, None, :]]
        return TreeCRF(scores.to(dtype), lengths, single_root=True)

    trees = crf(truth).sample()
    table = torch.zeros_like(truth, requires_grad=True)
    optimizer = torch.optim.Adam([table], lr=0.1)
    begin = time.perf_counter()
    for _ in track(range(args.steps), description="training", console=console):
        loss = -crf(table).log_prob(trees).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - begin

    def accuracy(heads: torch.Tensor) -> str:
        words = (position > 0) & (position <= lengths[:, None])
        return f"{100 * (heads == trees)[words].double().mean():.1f} %"

    result = Table("heads found by", "best tree", "most expected arcs", "log-likelihood of a tree")
    tables = {"no scores": torch.zeros_like(truth), "learned scores": table.detach(), "true scores": truth}
    for name, scores in tables.items():
        dist = crf(scores)
        result.add_row(name, accuracy(dist.mode), accuracy(dist.mbr), f"{dist.log_prob(trees).mean():.2f}")
    console.print(result)
    console.print(f"{args.steps * SENTENCES / seconds:,.0f} sentences per second, with gradients, scores in {dtype}")


if __name__ == "__main__":
    main()
