"""Moves as kernels of the kernel language: one kernel for each field, in the order of the target.

Whole bytes: a thread takes a unit of up to 16 bytes, at the source position of its digits, and stores it; neighbouring
threads store neighbouring units. Elements below a byte: a thread composes one word of the target from the source words
that hold its elements, so no two threads write the same word.

>>> from lego_mlir.formats.field_moves import Move
>>> kernel = build(Move(((2, 512, 1024), (2, 2048, 512), (4, 128, 128)), 128, (0, 0)), 512, 512)
>>> kernel.grid, kernel.block, [p.dtype for p in kernel.params]
((1,), (256,), [i32, i32])
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from collections.abc import Mapping
from functools import cache
from math import gcd, prod
from typing import Final

import lego_mlir as lego
from lego_mlir.aliases import AnyArray, Foreign, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.field_moves import Digit, Move
from lego_mlir.layout.canonical import unflatten
from lego_mlir.layout.permutations import Row
from lego_mlir.tracing.definition import Kernel
from lego_mlir.tracing.dtypes import dtype_named

THREADS: Final = 256
WORD_BITS: Final = 32
"""Words of elements below a byte, and the elements of wider accesses."""


@cache
def build(plan: Move, source_bytes: int, target_bytes: int) -> Kernel:
    """The kernel of a move between buffers of these bytes; its tensors are `x` and `y`.

    Elements below a byte are combined with the target's bits by `or`, so those are 0 before.
    """
    if plan.unit < 8:
        return _composed(plan, source_bytes, target_bytes)
    return _copied(plan, source_bytes, target_bytes)


def types_of(plan: Move) -> tuple[str, str]:
    """The element types of `x` and `y`."""
    if plan.unit < 8:
        return "u8", f"u{_words(plan)[0]}"
    bits = min(WORD_BITS, _unit(plan))
    return f"i{bits}", f"i{bits}"


def _unit(plan: Move) -> int:
    """The widest unit at which every place of both sides is aligned."""
    return gcd(plan.unit, *plan.start, *(stride for _, s, t in plan.digits for stride in (s, t)))


def _offset(
    coordinates: tuple[IndexLike, ...], digits: tuple[Digit, ...], side: int, start: int, unit: int
) -> IndexLike:
    """The place of a unit on one side, counted in `unit` bits."""
    return start // unit + sum(c * (d[side] // unit) for c, d in zip(coordinates, digits, strict=True))


def _copied(plan: Move, source_bytes: int, target_bytes: int) -> Kernel:
    unit = _unit(plan)
    digits = plan.digits if unit == plan.unit else (*plan.digits, (plan.unit // unit, unit, unit))
    bits = min(WORD_BITS, unit)
    width, dtype = unit // bits, dtype_named(f"i{bits}")
    units = prod(n for n, _, _ in digits)
    x_layout, y_layout = Row(source_bytes * 8 // bits), Row(target_bytes * 8 // bits)

    @lego.kernel(grid=(lego.cdiv(units, THREADS),), block=THREADS)
    def relayout(x: lego.Tensor(dtype, x_layout), y: lego.Tensor(dtype, y_layout)):  # type: ignore[no-untyped-def]
        t = lego.block_id[0] * THREADS + lego.thread_id[0]
        with lego.when(t < units):
            at = unflatten(t, [n for n, _, _ in digits]) if digits else ()
            there, here = (_offset(at, digits, side, plan.start[side - 1], unit) * width for side in (1, 2))
            y.store(x.load(there, width=width) if width > 1 else x[there], here)

    return relayout


def _words(plan: Move) -> tuple[int, tuple[Digit, ...], tuple[Digit, ...]]:
    """The bits of the words of the target, the digits that count words, and those inside a word.

    Innermost digits that are dense in the target from a word's edge on make words; where no two elements share a byte,
    each is a word of 8 bits. Raises LayoutError for elements that share bytes otherwise.
    """
    outer, inner, dense = list(plan.digits), list[Digit](), plan.unit
    while outer and outer[-1][2] == dense:
        inner.insert(0, outer.pop())
        dense *= inner[0][0]
    for word in (32, 16, 8):
        if dense % word == 0 and not any(t % word for t in (plan.start[1], *(t for _, _, t in outer))):
            counted = list(outer)
            while inner and inner[0][2] >= word:
                counted.append(inner.pop(0))
            if inner and inner[0][2] * inner[0][0] > word:  # the edge of a word is inside this digit
                size, source, target = inner[0]
                within = word // target
                counted.append((size // within, source * within, word))
                inner[0] = (within, source, target)
            return word, tuple(counted), tuple(inner)
    if all(t % 8 == 0 for _, _, t in plan.digits):
        return 8, plan.digits, ()
    raise LayoutError(f"{plan}: elements of {plan.unit} bits share bytes that they do not fill; convert NumPy arrays")


def _composed(plan: Move, source_bytes: int, target_bytes: int) -> Kernel:
    word, outer, inner = _words(plan)
    words, elements = prod(n for n, _, _ in outer), prod(n for n, _, _ in inner)
    dtype, mask, layout = dtype_named(f"u{word}"), (1 << plan.unit) - 1, Row(target_bytes * 8 // word)

    @lego.kernel(grid=(lego.cdiv(words, THREADS),), block=THREADS)
    def repack(x: lego.Tensor(lego.u8, Row(source_bytes)), y: lego.Tensor(dtype, layout)):  # type: ignore[no-untyped-def]
        t = lego.block_id[0] * THREADS + lego.thread_id[0]
        with lego.when(t < words):
            at = unflatten(t, [n for n, _, _ in outer]) if outer else ()
            there, here = (_offset(at, outer, side, plan.start[side - 1], 1) for side in (1, 2))
            found = y[here // word]
            for e in range(elements):
                digit = unflatten(e, [n for n, _, _ in inner]) if inner else ()
                bit = there + _offset(digit, inner, 1, 0, 1)
                code = (lego.u32(x[bit // 8]) >> lego.u32(bit % 8)) & mask
                place = here % word + _offset(digit, inner, 2, 0, 1)
                found = found | dtype(code << lego.u32(place))
            y[here // word] = found

    return repack


def run_on_device(plan: Conversion, buffers: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The target's buffers on the device of the source's, by one kernel for each field.

    Raises LayoutError for a conversion with a cast, which runs on the processor.
    """
    if not plan.moves:
        raise LayoutError(
            f"{plan.source.name} to {plan.target.name} changes codes, and casts run on the processor; pass NumPy arrays"
        )
    like = next(iter(buffers.values()))
    found = {name: _zeros(like, plan.target.bytes_of(name)) for name in plan.target.buffers}
    for there, here, one in plan.moves:
        x, y = (_typed(array, dtype) for array, dtype in zip((buffers[there], found[here]), types_of(one), strict=True))
        build(one, plan.source.bytes_of(there), plan.target.bytes_of(here))(x, y)
    return found


def _zeros(like: AnyArray, size: int) -> AnyArray:
    """Zeroed bytes on the device of an array."""
    if type(like).__module__.partition(".")[0] == "torch":
        return like.new_zeros(size, dtype=_torch("uint8"))
    from lego_mlir.runtime.cuda import cupy

    return cupy().zeros(size, cupy().uint8)


def _typed(array: AnyArray, dtype: str) -> AnyArray:
    """The memory of an array as one of elements of a type."""
    name = dtype_named(dtype).numpy_name
    if type(array).__module__.partition(".")[0] == "torch":
        return array.contiguous().view(-1).view(_torch(name))
    return array.reshape(-1).view(name)


def _torch(name: str) -> Foreign:
    import torch

    return getattr(torch, name)
