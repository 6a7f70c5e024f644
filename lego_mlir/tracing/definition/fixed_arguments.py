"""Arguments that a kernel is traced for: None for a tensor that may be, and the values of numbers.

    @lego.kernel(grid=.., block=.., specialise=("slope",))
    def scale(x: lego.Tensor(f32, Row(N)), slope: f32, bias: lego.Tensor(f32, Row(N)) | None, y: ..):
        ...
        if bias is not None:
            value += bias[i]

`scale.fixed(bias=None, slope=0.0)` is the kernel whose function gets these values, and which has no such parameters:
Python's `if` folds for None, and what is computed from a number is computed by the compiler. `scale(x, 0.0, None)` runs
it, since `specialise` names the number; calls with at most `runtime.calls.SPECIAL` values have kernels of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lego_mlir.errors import TraceError
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.reference import Fixed


def optional_names(kernel: Kernel) -> frozenset[str]:
    """The names of the tensors that may be None."""
    return frozenset(n for n, kind in kernel.signature.items() if isinstance(kind, Tensor) and kind.optional)


def specialised_numbers(kernel: Kernel) -> frozenset[str]:
    """The numbers whose values have kernels of their own when the kernel is called."""
    named = kernel.specialise if isinstance(kernel.specialise, tuple) else ()
    return frozenset(name for name in named if name in kernel.signature)


def fixed(kernel: Kernel, values: Mapping[str, Fixed]) -> Kernel:
    """The kernel whose function gets these values. Raises TraceError for what a parameter cannot be."""
    for name, value in values.items():
        _require_fitting(kernel, name, value)
    if kernel.schedules:
        raise TraceError(
            f"{kernel.source}: {kernel.name} has schedules; fix arguments before: k.fixed(..).schedule(..)"
        )
    found: Kernel = object.__new__(type(kernel))
    kept = {k: v for k, v in kernel.__dict__.items() if k not in ("_traced", "params", "calls")}
    found.__dict__.update(kept, _texts={}, _choice=None)
    numbers = {n: kind for n, kind in kernel.signature.items() if n in values and isinstance(kind, DType)}
    rounded = {n: None if value is None else _rounded(value, numbers[n]) for n, value in values.items()}
    found.arguments_fixed = {**kernel.arguments_fixed, **rounded}
    found.number_types = {**kernel.number_types, **numbers}
    found.signature = {name: kind for name, kind in kernel.signature.items() if name not in values}
    if isinstance(kernel.specialise, tuple):
        found.specialise = tuple(name for name in kernel.specialise if name not in values) or True
    none = sorted(n for n, value in values.items() if value is None)
    texts = [f"{name}_{_text(value)}" for name, value in sorted(values.items()) if value is not None]
    found.name = "_".join([kernel.name, *(["without", *none] if none else []), *texts])
    return found


def _require_fitting(kernel: Kernel, name: str, value: Fixed) -> None:
    kind = kernel.signature.get(name)
    if value is None and not (isinstance(kind, Tensor) and kind.optional):
        listed = ", ".join(sorted(optional_names(kernel))) or "none"
        raise TraceError(
            f"{kernel.source}: {name} of {kernel.name} is never None; its tensors that may be: {listed}; declare "
            "one as lego.Tensor(dtype, layout) | None"
        )
    if value is not None and not (isinstance(kind, DType) and _holds(kind, value)):
        numbers = [f"{n} of {declared}" for n, declared in kernel.signature.items() if isinstance(declared, DType)]
        raise TraceError(
            f"{kernel.source}: {name}={value!r} of {kernel.name} cannot be fixed: numbers have values of their types, "
            f"and tensors None; its numbers: {', '.join(numbers) or 'none'}"
        )


def _holds(dtype: DType, value: object) -> bool:
    """Whether a type has the number, which is rounded only to a float."""
    if not isinstance(value, (int, float)):
        return False
    return dtype.is_float or (float(value).is_integer() and dtype.span[0] <= value <= dtype.span[1])


def _rounded(value: float, dtype: DType) -> float:
    """A number in its type as a call passes it: infinity where it is beyond, and of f8 the largest number."""
    if not dtype.is_float:
        return int(value)
    import numpy

    if dtype.is_f8:
        import ml_dtypes

        most = float(ml_dtypes.finfo(dtype.numpy).max)
        value = value if value != value else max(-most, min(most, value))
    with numpy.errstate(over="ignore"):
        return float(numpy.asarray(value).astype(dtype.numpy))


def _text(value: float) -> str:
    """A number as part of a name, another one for each number."""
    return re.sub(r"\W", "_", repr(value).replace("-", "m").replace("+", "p"))
