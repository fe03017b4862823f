"""What tritree uses of torch's private interface, and what it does where a release of torch no longer has it.

Each function here then gives the answer that is always safe: it costs time, results stay right. (Names with an
underscore that torch.distributions asks its subclasses to use, such as ``_validate_args``, are in crf.py.)
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad

# Without these names: a transform or a mode may always be active. All calls then take the dispatcher's way, no values
# are read, and TreeCRF validates them only where validate_args=True asks for it: as on a GPU.
transforms_are_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
"""Whether the call is inside torch.vmap or another transform of torch.func."""

num_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 1)
"""How many modes see the operators that are called: FakeTensorMode, a tracer, a profiler of operators."""


_LEVEL_IS_KNOWN = hasattr(forward_ad, "_current_level")


def has_forward_gradient(tensor: Tensor) -> bool:
    """Whether forward-mode differentiation is under way and has a derivative for this tensor."""
    if _LEVEL_IS_KNOWN and forward_ad._current_level < 0:  # saves the time of the next line
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None
