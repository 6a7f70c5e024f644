"""The sizes of copies along K: row pitches, widths of loads and names, found without tracing.

`rows_along_k` has the kernels.

>>> pitch(100, 1), pitch(100, 4), pitch(101, 4), name_of(1, 8)
(112, 100, 104, 'along_k_8bit_by_8')
"""

from __future__ import annotations

from typing import Final

from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels.aligned_products import ALIGNED
from lego_mlir.tracing.trace.dtypes import i8, i32

TYPES: Final = {1: i8, 4: i32}
"""The integers that elements are moved as, by their bytes."""
WIDTHS: Final = {1: (16, 8, 4, 1), 4: (4, 1)}
"""Elements of a vector of the source, by the bytes of one; 1 where rows begin anywhere."""
LARGE: Final = 2**24
"""Elements from which tiles of 256 x 256 leave no multiprocessor idle."""


def pitch(k: int, element: int) -> int:
    """The elements of a row of K with its padding: k itself where rows are multiples of 16 bytes."""
    unit = max(CHUNK // element, ALIGNED)
    return k if k * element % CHUNK == 0 else -(-k // unit) * unit


def width_for(k: int, r: int, element: int) -> int:
    """The width of a copy's loads: the widest that divides rows of R; of small matrices at most 8 bytes.

    >>> width_for(8192, 8192, 1), width_for(1024, 1024, 1), width_for(1024, 1001, 1), width_for(64, 6, 4)
    (16, 8, 1, 1)
    """
    most = CHUNK if k * r >= LARGE else CHUNK // 2
    return next(w for w in WIDTHS[element] if r % w == 0 and (w <= most or element > 1))


def name_of(element: int, width: int) -> str:
    """The name of a copy's kernel, for elements of that many bytes, in loads of `width`."""
    return f"along_k_{8 * element}bit_by_{width}"
