"""Tensors that a call may leave out: `bias: lego.Tensor(f32, Row(N)) | None`.

    @lego.kernel(grid=.., block=..)
    def scale(x: lego.Tensor(f32, Row(N)), bias: lego.Tensor(f32, Row(N)) | None, y: lego.Tensor(f32, Row(N))):
        ...
        if bias is not None:
            value += bias[i]

The kernel has all of them; `scale.without("bias")` is the kernel whose function is traced with None, so that Python's
`if` folds, and which has no such parameter. The call `scale(x, None)` runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lego_mlir.errors import TraceError
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


def optional_names(kernel: Kernel) -> frozenset[str]:
    """The names of the tensors that may be None."""
    return frozenset(n for n, kind in kernel.signature.items() if isinstance(kind, Tensor) and kind.optional)


def without(kernel: Kernel, names: tuple[str, ...]) -> Kernel:
    """The kernel whose function gets None for these tensors. Raises TraceError for those that may not be None."""
    optional = optional_names(kernel)
    for name in names:
        if name not in optional:
            listed = ", ".join(sorted(optional)) or "none"
            raise TraceError(
                f"{kernel.source}: {name} of {kernel.name} is never None; its tensors that may be: {listed}; declare "
                "one as lego.Tensor(dtype, layout) | None"
            )
    if kernel.schedules:
        raise TraceError(
            f"{kernel.source}: {kernel.name} has schedules; leave tensors out before: k.without(..).schedule(..)"
        )
    found: Kernel = object.__new__(type(kernel))
    kept = {k: v for k, v in kernel.__dict__.items() if k not in ("_traced", "params", "calls")}
    found.__dict__.update(kept, _texts={}, _choice=None)
    found.absent = kernel.absent | set(names)
    found.signature = {name: kind for name, kind in kernel.signature.items() if name not in found.absent}
    found.name = "_".join([kernel.name, "without", *sorted(names)])
    return found
