"""A biaffine dependency parser in plain torch, with tritree as its tree layer.

python examples/biaffine.py

Trains for a few seconds on the built-in synthetic treebank and prints the share of right heads (UAS). The three lines
that are about trees are marked; all else is what any parser with arc scores has.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent))  # tritree and parsers, where they are not installed

import tritree
from parsers.data import synthetic

ROOT, UNKNOWN = 1, 2  # 0 is the padding


class Biaffine(nn.Module):
    """Words and tags [B, N] → scores [B, N, N], in which [h, m] is the arc from h to m; position 0 is ROOT."""

    def __init__(self, words: int, tags: int, size: int = 64, hidden: int = 64):
        super().__init__()
        self.word, self.tag = nn.Embedding(words, size), nn.Embedding(tags, size)
        self.lstm = nn.LSTM(2 * size, size, bidirectional=True, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * size, hidden), nn.ReLU())
        self.modifier = nn.Sequential(nn.Linear(2 * size, hidden), nn.ReLU())
        self.bilinear = nn.Linear(hidden, hidden, bias=False)
        self.bias = nn.Linear(hidden, 1, bias=False)

    def forward(self, words: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        x = torch.cat([self.word(words), self.tag(tags)], -1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths + 1, batch_first=True, enforce_sorted=False)
        o, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        h, m = self.head(o), self.modifier(o)
        return self.bilinear(h) @ m.mT + self.bias(h)


def numbers(vocabulary: dict[str, int], words: list[str], grow: bool) -> list[int]:
    if grow:
        for word in words:
            vocabulary.setdefault(word, len(vocabulary) + 3)
    return [ROOT, *(vocabulary.get(word, UNKNOWN) for word in words)]


def batches(sentences: list, vocabularies: tuple[dict, dict], grow: bool = False, size: int = 32) -> list:
    """Tensors of words, tags, heads [B, N] and lengths [B]; sentences of similar length are in a batch."""
    sentences = sorted(sentences, key=len)
    result = []
    for begin in range(0, len(sentences), size):
        some = sentences[begin : begin + size]
        words = [torch.tensor(numbers(vocabularies[0], s.forms, grow)) for s in some]
        tags = [torch.tensor(numbers(vocabularies[1], s.upos, grow)) for s in some]
        heads = [torch.tensor([-1, *s.heads]) for s in some]
        padded = [nn.utils.rnn.pad_sequence(x, batch_first=True) for x in (words, tags, heads)]
        result.append((*padded, torch.tensor([len(s) for s in some])))
    return result


def main(epochs: int = 5) -> float:
    torch.manual_seed(0)
    vocabularies: tuple[dict, dict] = {}, {}
    train = batches(synthetic.sentences("train"), vocabularies, grow=True)
    test = batches(synthetic.sentences("test"), vocabularies)
    parser = Biaffine(*(len(v) + 3 for v in vocabularies))
    optimizer = torch.optim.Adam(parser.parameters(), 2e-3)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for i in torch.randperm(len(train)).tolist():
            words, tags, heads, lengths = train[i]
            crf = tritree.TreeCRF(parser(words, tags, lengths), lengths)  # tritree: a distribution over trees
            loss = -crf.log_prob(heads).mean()  # tritree: log Z − the tree's score
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(train):.2f}")

    right = words_in_total = 0
    with torch.no_grad():
        for words, tags, heads, lengths in test:
            crf = tritree.TreeCRF(parser(words, tags, lengths), lengths, single_root=True)
            predicted = crf.mbr  # tritree: the tree with the most probable arcs
            word = predicted >= 0
            right += (predicted == heads)[word].sum().item()
            words_in_total += word.sum().item()
    uas = 100 * right / words_in_total
    print(f"UAS on the test set: {uas:.1f} %")
    return uas


if __name__ == "__main__":
    main()
