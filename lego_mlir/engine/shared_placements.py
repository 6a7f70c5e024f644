"""A tile in shared memory as one more placement of a value: offset -> index, in lines whose chunks are swizzled.

What tensor copies fill, and what `wgmma` and `ldmatrix` read without conflicts: lines of at most 128 bytes, chunks of
16 bytes, chunk k of line r at k ^ r. Tiles whose rows are longer consist of panels, one line wide, one after the other.

>>> tile = swizzled((16, 64), 16, axis=1)
>>> tile.apply(offset=0), tile.apply(offset=64), tile.apply(offset=64 + 8)
({'dim0': 0, 'dim1': 0}, {'dim0': 1, 'dim1': 8}, {'dim0': 1, 'dim1': 0})
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims
from lego_mlir.hardware.tensor_maps import CHUNK, LINE

OFFSET = "offset"


@lru_cache(maxsize=1024)
def swizzled(shape: tuple[int, int], bits: int, axis: int) -> LinearLayout:
    """The placement of a tile of powers of two that is contiguous along `axis`, of elements of `bits` bits."""
    across = 1 - axis
    line = min(shape[axis], LINE * 8 // bits)
    chunk = min(line, CHUNK * 8 // bits)
    chunks, lines_of_phase = line // chunk, max(1, LINE * 8 // (line * bits))

    def at(along: int, row: int) -> tuple[int, int]:
        return (row, along) if axis == 1 else (along, row)

    bases = [at(1 << k, 0) for k in range(line.bit_length() - 1)]
    for k in range(shape[across].bit_length() - 1):
        moved = (1 << k) // lines_of_phase
        bases.append(at(moved * chunk if moved < chunks else 0, 1 << k))
    bases += [at(line << k, 0) for k in range((shape[axis] // line).bit_length() - 1)]
    return LinearLayout({OFFSET: bases}, dict(zip(standard_dims(2), shape, strict=True)))


def is_shared(layout: LinearLayout) -> bool:
    """Whether a placement is in shared memory, and not in registers."""
    return layout.ins[0][0] == OFFSET if len(layout.ins) == 1 else any(name == OFFSET for name, _ in layout.ins)


def contiguous_axis(placement: LinearLayout) -> int:
    """The axis along which a tile in shared memory is contiguous."""
    return next((axis for axis, n in enumerate(placement.bases[OFFSET][0]) if n), 1)


def bytes_of(shape: Sequence[int], bits: int) -> int:
    """The bytes of a tile."""
    size = bits
    for n in shape:
        size *= n
    return size // 8
