"""`--init RUN`: a training that starts from the weights of another run's best model, as for fine-tuning.

Its words, tags and labels are those of both runs. What is new has new weights. What a system counts or keeps apart from
its parameters, such as GAP's Θ, it makes anew from its own sentences.
"""

from argparse import Namespace

import torch
from torch import Tensor

from parsers import MODELS
from parsers.data.vectors import Vectors
from parsers.data.vocabulary import TABLES, Vocabulary
from parsers.io.errors import UserError
from parsers.networks.labeler import FIRST
from parsers.options import COMMON, saved_options
from parsers.runs.run import Run, outline
from parsers.system import Parser

Rows = dict[str, tuple[int, str]]  # parameter → the dimension that has an entry for each symbol, and of which table


class Start:
    """The run that another one starts from."""

    def __init__(self, options: Namespace):
        self.run = Run.open(options.init)
        self.options, _ = self.run.config()
        if self.options.model != options.model:
            raise UserError(f"--init {self.run} is a run of {self.options.model}: choose --model {self.options.model}")
        self.model, self.vocab, self.vectors = self.run.load_model(self.options, torch.device("cpu"))

    def files(self) -> list[str]:
        """What must not change until the first checkpoint of the new run."""
        return [str(self.run.directory / name) for name in ("vocab.json", "model.safetensors")]

    def check(self, options: Namespace, vocab: Vocabulary, vectors: Vectors | None) -> None:
        """A UserError unless the parameters are those of a model with these options, but for new symbols."""
        if not MODELS[options.model].uses_words and len(vocab.pos) != len(self.vocab.pos):
            raise UserError(f"--init {self.run} knows fewer tags, and {options.model} can't learn new ones")
        if bool(vectors) != bool(self.vectors):
            what = "was trained with --embeddings: name the same file" if self.vectors else "knows no --embeddings"
            raise UserError(f"--init {self.run} {what}")
        new, old = outline(options, vocab, vectors), dict(self.model.named_parameters())
        rows = symbol_rows(options, vocab, vectors)
        for name, parameter in new.named_parameters():
            if not _is_kept(name, parameter, old):
                continue
            dim, _ = rows.get(name, (-1, ""))
            if name not in old or _without(dim, parameter) != _without(dim, old[name]):
                raise self._unlike(options)
        more = old.keys() - dict(new.named_parameters()).keys()
        if not all("labeler." in name for name in more):
            raise self._unlike(options)

    def _unlike(self, options: Namespace) -> UserError:
        """Names the options that may be to blame, as the other run has them."""
        inputs = [option for option in saved_options(options.model) if option.dest in ("xpos", "feats")]
        known = [*inputs, *COMMON["network"], *MODELS[options.model].options]
        found = []
        for option in known:
            value = getattr(self.options, option.dest)
            if value != getattr(options, option.dest) and not isinstance(value, float):
                is_set = value != option.default
                flag = option.name if is_set else f"no {option.name}"
                found.append(flag if option.is_flag else f"{option.name} {value}")
        theirs = f"it was trained with {', '.join(found)}" if found else "its vectors have another length"
        return UserError(f"--init {self.run} has other inputs or sizes: {theirs}")

    @torch.no_grad()
    def fill(self, model: Parser, vectors: Vectors | None) -> None:
        """Copies the weights into a new model, the rows of symbols by their names."""
        rows, old = symbol_rows(model.options, model.vocab, vectors), dict(self.model.named_parameters())
        for name, parameter in model.named_parameters():
            if not _is_kept(name, parameter, old):
                continue
            if name not in rows:
                parameter.copy_(old[name])
                continue
            dim, table = rows[name]
            ours, theirs = self._numbers(model.vocab, table)
            if table == "labels":
                ours, theirs = ours - FIRST, theirs - FIRST
            known = (ours >= 0) & (ours < parameter.shape[dim]) & (theirs < old[name].shape[dim])
            values = old[name].index_select(dim, theirs[known])
            parameter.index_copy_(dim, ours[known].to(parameter.device), values.to(parameter.device))

    def _numbers(self, vocab: Vocabulary, table: str) -> tuple[Tensor, Tensor]:
        """The numbers that the symbols of both runs have in the new one and in the old one."""
        old, new = getattr(self.vocab, table), getattr(vocab, table)
        pairs = [(new.number[symbol], number) for symbol, number in old.number.items() if symbol in new.number]
        ours, theirs = torch.tensor(pairs).unbind(1)
        return ours, theirs


def _without(dim: int, parameter: Tensor) -> list[int]:
    return [size for d, size in enumerate(parameter.shape) if d != dim]


def _is_kept(name: str, parameter: Tensor, old: dict[str, Tensor]) -> bool:
    """Not so a teacher, which is filled later, and labels, where the other run has none."""
    has_labels = any("labeler." in known for known in old)
    return parameter.requires_grad and (has_labels or "labeler." not in name)


def symbol_rows(options: Namespace, vocab: Vocabulary, vectors: Vectors | None) -> Rows:
    """Found by making each table one symbol longer. A parameter that grows by more than that has none."""

    def shapes(vocab: Vocabulary) -> dict[str, torch.Size]:
        return {name: parameter.shape for name, parameter in outline(options, vocab, vectors).named_parameters()}

    usual, rows = shapes(vocab), {}
    for table in TABLES:
        if getattr(vocab, table) is None:
            continue
        for name, shape in shapes(vocab.with_one_more(table)).items():
            for dim, (longer, size) in enumerate(zip(shape, usual[name], strict=True)):
                if longer == size + 1:
                    rows[name] = (dim, table)
    return rows
