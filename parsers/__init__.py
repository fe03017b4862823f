"""Dependency parsers on top of tritree: LAP, GAP and the five systems that they are compared with, one file each.

**A system** is a subclass of `Parser` (system.py), a torch module. The least it has is a loss over trees:

    class NTP(Parser):
        def labeled_loss(self, batch):
            crf = tritree.TreeCRF(self.arc_scores(batch), batch.lengths, validate_args=False)
            return -crf.log_prob(batch.heads).sum(), {}

`Parser` gives it the shared bi-LSTM encoder (`self.encoder(batch)` → states [B, N, size]) and arc scorer
(`self.scorer(states)` → [B, N, N]); `arc_scores` chains the two and is what trees are predicted from (`predict`).
A system with other networks calls `nn.Module.__init__` in place of `Parser.__init__` and has `arc_scores` of its own.

**A batch** (data/batches.py) has `words`, `pos`, `xpos` [B, N], `feats` [B, N, F], `lengths` [B], `heads` [B, N] (−1 at
position 0 and in the padding; None for unlabelled sentences), all in tritree's conventions, on the right device.
`batch.words` numbers the whole vocabulary; the encoder knows the first `num_words` of it (default: the words of the
trees; `Parser.__init__(…, num_words=len(vocab.words))` for systems that train it on unlabelled text).

**A loss** is summed over the sentences of the batch, never averaged: the loop divides by the words of the batch, all
processes counted. With it comes a dict of other sums, logged per word. Losses see random numbers through `batch.noise`
only (`dropout(x, p, batch.noise)`, `batch.noise.normal(N, size)`, `.uniform`, `.gumbel`: always [B, …], belonging to
the sentence); it is None outside of training, and then nothing is random. This is what makes runs repeatable, resumable
and independent of the number of processes.

**The loop** (training/loop.py) does, for each stage (`stages`, usually one) and epoch:

    model.begin_stage(context)      once; in later stages with the best weights so far. Self-training makes them its
                                    teacher's here, starts anew and returns True: forget what was best
    model.begin_epoch(context)      schedules: context.progress goes from 0 to 1 over the epochs
    for loss, batch in model.steps(context): one update by model.make_optimizer()
                                    by default labeled_loss on each labelled batch and, if uses_unlabeled,
                                    unlabeled_loss on an unlabelled batch after each of them
    model.end_epoch(context)        no gradients here; closed-form updates, passes over all unlabelled sentences;
                                    returns figures to be logged
    dev set, early stopping, checkpoint

With `trees_first`, the first stage leaves unlabelled sentences out, and it is the only one where there are none.

`context` has `data`, `group`, `options`, `stage`, `epoch`, `epochs`. `context.data` has `labeled_batches()`,
`unlabeled_batches()` (one pass in a fixed order, streamed), `unlabeled_forever(start)`, `batches(examples, size, key)`,
each with this process's share of the sentences, which may be none. Sums over sentences that are made outside of a loss
go through `context.group.sum_(tensor)`.

**State.** Parameters and buffers are saved and restored; name buffers whose shape varies in `resizable`. Anything else
goes through `extra_state` and `load_extra_state` (JSON), but only parameters, buffers and options are there when a
finished model parses. `begin_epoch` runs again when a run is resumed inside an epoch. The constructor must also run
under `torch.device("meta")`: that is how the shapes in a model file are checked before memory is spent on them.

**Options** of a system are declared in its `add_options(group)`, with types that check their range (options.number).
They are in `self.options`, in config.json, and in `train.py --model NAME --help`.

**To add a system:** write parsers/NAME.py, add a line to MODELS, and its name to tests/parsers/test_systems.py: it
learns 20 sentences by heart, and its gradients agree with finite differences.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.system import Parser

MODELS = {
    "lap": "parsers.lap:LAP",
    "gap": "parsers.gap:GAP",
    "ntp": "parsers.ntp:NTP",
    "nmp": "parsers.nmp:NMP",
    "crfae": "parsers.crfae:CRFAE",
    "dppp": "parsers.dppp:DPPP",
    "st": "parsers.st:ST",
}


def load_parser(name: str) -> "type[Parser]":
    """The class of a system. Its file is imported now, and no other's."""
    module, _, cls = MODELS[name].partition(":")
    return getattr(importlib.import_module(module), cls)
