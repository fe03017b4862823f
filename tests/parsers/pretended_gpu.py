"""A step of every system on a pretended GPU: `python -m tests.parsers.pretended_gpu` prints a line for each.

The device is torch's place for one of one's own, here without any memory behind it: its tensors have a dtype and a
shape, but no values. Where two devices meet, or a value is read, they raise. The registration holds for the whole
process, so the tests run this in one of its own.
"""

import contextlib
import os
import sys
from dataclasses import fields, replace

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from parsers import MODELS, load_parser
from parsers.data import batches, noise
from parsers.data.batches import Batch
from parsers.edp import Reconstructor
from parsers.system import Context, Parser
from parsers.training.processes import Group
from tests.parsers.helpers import build, small_data, tiny_options
from tritree import backends

NAME = "pretended"
STEPS = [(system, kind) for system in MODELS for kind in ("labeled", "unlabeled")[: 1 + MODELS[system].uses_unlabeled]]


class NoGenerator(noise.Noise):
    """There are no generators of random numbers for such a device."""

    def __init__(self, key, size, rows, device):
        self.size, self.rows, self.device, self.generator = size, rows, device, None


def pretend() -> torch.device:
    """Registers the device. Autocast does not know it."""
    _setup_privateuseone_for_python_backend(NAME)
    backends._DEFAULTS[NAME] = "triton"
    batches.Noise = NoGenerator
    for system in MODELS:
        load_parser(system)
    for module in [module for name, module in sys.modules.items() if name.startswith("parsers.")]:
        if hasattr(module, "float32_on_cpu"):
            module.float32_on_cpu = lambda device: contextlib.nullcontext()
    return torch.device(NAME, 0)


def move(model: Parser, device: torch.device) -> Parser:
    """Fake parameters can't be swapped, as `to` does it."""
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    there = tensor.detach().to(device)
                    needed = tensor.requires_grad
                    table[name] = nn.Parameter(there, needed) if isinstance(tensor, nn.Parameter) else there
    return model


def there(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device, with its noise."""
    tensors = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved = {
        name: torch.empty(tensor.shape, dtype=tensor.dtype, device=device)
        for name, tensor in tensors.items()
        if isinstance(tensor, Tensor)
    }
    return replace(batch, **moved).draw("step", 1)


def step(system: str, kind: str, device: torch.device) -> None:
    """The loss of one batch with its gradients, an update, and a prediction."""
    options = tiny_options(system, *("--distance", "--xpos", "--feats")[: 3 * MODELS[system].uses_words])
    data, vocab = small_data(options, 8, unlabeled=8)
    batch = next(data.labeled_batches() if kind == "labeled" else data.unlabeled_batches())
    model = build(options, vocab).train()
    context = Context(data, Group("cpu"), options, stage=1, epoch=2, epochs=2)
    model.begin_stage(context)
    model.begin_epoch(context)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model, batch = move(model, device), there(batch, device)
        optimizer = model.make_optimizer()
        loss, metrics = getattr(model, f"{kind}_loss")(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        batch.noise = None
        with torch.no_grad():
            _, states = model(batch)
            heads = model.predict(batch)
            labels = model.labels(states, batch, heads)
        for tensor in (loss, *metrics.values(), heads, *labels):
            assert tensor.device == device


def reconstruction_step(device: torch.device) -> None:
    """What EDP's encoder learns before the trees."""
    options = tiny_options("edp")
    data, vocab = small_data(options, 8, unlabeled=8)
    model, batch = Reconstructor(options, vocab).train(), next(data.unlabeled_batches())
    with FakeTensorMode(allow_non_fake_inputs=True):
        loss, metrics = move(model, device).unlabeled_loss(there(batch, device))
        loss.backward()
        assert {loss.device, *(tensor.device for tensor in metrics.values())} == {device}


def check_faults_are_noticed(device: torch.device) -> None:
    """Two devices that meet, a value that is read, a shape that depends on values."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.zeros(3, device=device)
        for fault in (lambda: x + torch.zeros(3), x.sum().item, lambda: bool(x[0]), lambda: x[x > 0]):
            try:
                fault()
            except (RuntimeError, DynamicOutputShapeException, DataDependentOutputException):
                continue
            raise AssertionError("a fault went unnoticed")


if __name__ == "__main__":
    device = pretend()
    check_faults_are_noticed(device)
    for system, kind in STEPS:
        step(system, kind, device)
        print(system, kind)
    reconstruction_step(device)
    # Autograd's threads for the device know nothing of its end: one that still runs would abort the process.
    sys.stdout.flush()
    os._exit(0)
