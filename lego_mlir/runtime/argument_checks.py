"""Validate the arrays and numbers passed to a kernel, which a launch would otherwise reveal by crashing.

A misaligned address ends the CUDA context, and with it every array of the process; an array of another type, of another
shape, or one that overlaps the result silently gives wrong values. Each is rejected before the launch, with what was
declared, what was given, and the remedy. A one-dimensional array holds the elements in memory order. One of more
dimensions has the shape of the memory: for `Row(M, N)` it is M x N, for `Col(M, N)` N x M.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime.comparing import STORED, is_f8
from lego_mlir.runtime.manifest import Argument, evaluate

if TYPE_CHECKING:
    from lego_mlir.aliases import DeviceArray

_ANY_WORDS: Final = frozenset(
    {"bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f8e4m3fn", "f8e5m2", "index"}
)  # MLIR's integers have no sign


def scalar(declared: Argument, given: Any) -> Any:
    """The number as the launch passes it; of bf16 its word."""
    import numpy

    stored = numpy.dtype(STORED[declared.dtype])
    is_float = declared.dtype in ("f16", "f32", "f64")
    try:
        if isinstance(given, (str, bytes)):
            raise TypeError  # which NumPy would read as a number
        is_word = getattr(given, "dtype", None) == stored
        if declared.dtype == "bf16" and not is_word:
            return stored.type(_bf16(float(given)))
        if is_f8(declared.dtype) and not is_word:
            from lego_mlir.runtime import f8

            return stored.type(f8.encode(float(given), declared.dtype))
        passed = stored.type(given)
        if numpy.ndim(passed) == 0 and (is_float or passed == given):
            return passed
    except (TypeError, ValueError, OverflowError):
        pass
    raise UsageError(f"{declared.name} is one number of {declared.dtype}, and {given!r} is none of that type")


def _bf16(value: float) -> int:
    """The word of the nearest bfloat16, even where two are as near."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return 0x7FC0 if value != value else (int(bits) + 0x7FFF + (int(bits) >> 16 & 1)) >> 16


def tensor(declared: Argument, given: Any, sizes: Mapping[str, int], cupy: Any) -> Any:
    """The array, where a launch on the current device may have it."""
    if not isinstance(given, cupy.ndarray):
        raise UsageError(f"{declared.name} is a tensor of {declared.dtype}: {_remedy(given)}")
    if not _is_stored_as(given.dtype, declared.dtype):
        words = " (its 16-bit words)" if declared.dtype == "bf16" else ""
        raise UsageError(
            f"{declared.name} holds {declared.dtype}, and the array holds {given.dtype}; convert it: "
            f"array.astype({STORED[declared.dtype]!r}){words}, or array.view of it where the bits are meant"
        )
    elements = None if declared.elements is None else evaluate(declared.elements, sizes)
    if elements is not None and given.size != elements:
        raise UsageError(f"{declared.name} has {elements} elements in memory, and the array has {given.size}")
    _require_shape(declared, given, sizes)
    if not given.flags.c_contiguous:
        raise UsageError(f"{declared.name}: the array is not contiguous; pass cupy.ascontiguousarray of it")
    here, there = cupy.cuda.Device().id, given.device.id
    if here != there:
        raise UsageError(f"{declared.name} is on device {there}, and the launch on device {here}; move one of them")
    if given.size and given.data.ptr % declared.alignment:
        raise UsageError(
            f"{declared.name} begins {given.data.ptr % declared.alignment} bytes after a multiple of "
            f"{declared.alignment}, which the kernel's accesses need; pass a copy of it: array.copy()"
        )
    return given


def _remedy(given: Any) -> str:
    """How to make a CuPy array of what was given, by what it is."""
    kind = type(given).__module__.partition(".")[0]
    name = f"{kind} array" if kind == "numpy" else f"{type(given).__module__}.{type(given).__qualname__}"
    if kind == "torch":
        words = ".view(torch.int16)" if str(getattr(given, "dtype", "")) == "torch.bfloat16" else ""
        on_device = "" if getattr(getattr(given, "device", None), "type", "cuda") == "cuda" else ".cuda()"
        return f"pass a CuPy array, cupy.from_dlpack(tensor.detach(){on_device}{words}), not a torch.Tensor"
    if kind == "numpy":
        return f"pass a CuPy array, cupy.asarray(array), not a {name} in the host's memory"
    if hasattr(given, "__dlpack__"):
        return f"pass a CuPy array, cupy.from_dlpack(array), not a {name}"
    text = repr(given)
    return f"pass a CuPy array, not {text if len(text) < 60 else f'a {name}'}"


def _is_stored_as(given: Any, dtype: str) -> bool:
    import numpy

    stored = numpy.dtype(STORED[dtype])
    if dtype == "i1":
        return given.kind == "b" or given == stored
    if dtype in _ANY_WORDS:
        word = given.kind in "iu" or (dtype == "bf16" and given.name == "bfloat16")
        return bool(given.itemsize == stored.itemsize and word)
    return bool(given == stored)


def _require_shape(declared: Argument, given: Any, sizes: Mapping[str, int]) -> None:
    if given.ndim <= 1 or declared.shape is None:
        return
    shape = tuple(evaluate(n, sizes) for n in declared.shape)
    layout = declared.layout or ""
    if layout.startswith("Col("):
        shape = shape[::-1]
    if tuple(given.shape) != shape:
        of = f" (in memory {layout})" if layout else ""
        raise UsageError(
            f"{declared.name} has the shape {shape}{of}, and the array has {tuple(given.shape)}; pass that shape, or "
            "the elements in memory order as one dimension: array.reshape(-1)"
        )


def require_apart(entry: str, declared: Sequence[Argument], passed: Sequence[DeviceArray]) -> None:
    """Raise UsageError where a tensor that the kernel writes shares memory with another one."""
    spans = [
        (argument, array.data.ptr, array.data.ptr + array.nbytes)
        for argument, array in zip(declared, passed, strict=True)
        if argument.kind == "tensor" and array.size
    ]
    for number, (first, begin, end) in enumerate(spans):
        for second, other, last in spans[number + 1 :]:
            if begin < last and other < end and (first.written or second.written):
                written, read = (first, second) if first.written else (second, first)
                shared = min(end, last) - max(begin, other)
                raise UsageError(
                    f"kernel {entry}: {written.name}, which it writes, shares {shared} bytes of memory with "
                    f"{read.name}; threads run in no order, so the result would depend on chance; pass a copy of one"
                )
