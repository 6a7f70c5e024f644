"""Products of odd sizes on aligned copies of their operands: which sizes, which copies, and when they pay.

A tensor copy takes rows of multiples of 16 bytes, and `cp.async` moves at least 4. A product with other rows is
computed as a wider one of zeros beyond the true sizes:

    A: M x K ── pad ──► M x K'  ┐                                    K', N': multiples of 64, rows of 128-byte lines
    B: K x N ── pad ──► K' x N' ┴► product ──► M x N' ── crop ──► C: M x N

An operand whose stored rows and columns remain what they were is not copied, and neither is such a result.

>>> wide = widened(1000, 1001, 999, "NN")
>>> wide.sizes, wide.copied, wide.cropped
((1000, 1024, 1024), (True, True), True)
>>> widened(999, 1000, 1000, "NN")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PITCH: Final = 64
"""Elements that aligned rows are multiples of: a line of 128 bytes, of 16-bit elements."""
ALIGNED: Final = 8
"""Elements of 16 bytes."""
BYTES: Final = 2  # of an element
LEAST_COPY: Final = 4
"""Bytes that an asynchronous copy moves at least; PTX ISA, "cp.async"."""
LEAST_WORK: Final = 2**24
"""M N K below which launches of copies cost more than they save; at 513^3 they are 1.04 to 1.4 times as fast."""
LEAST_INTENSITY: Final = 256
"""Products of a copied element: with fewer, copying costs as much as narrow loads."""


@dataclass(frozen=True, slots=True)
class WideProduct:
    """A product on aligned copies: its sizes, which of A and B are copied, and whether C is copied back."""

    sizes: tuple[int, int, int]
    copied: tuple[bool, bool]
    cropped: bool

    def stored(self, layouts: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of A and B as they are stored: rows, and elements of a row."""
        return stored(*self.sizes, layouts)


def stored(m: int, n: int, k: int, layouts: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of A and B as NN, NT, TN or TT store them: rows, and elements of a row."""
    a, b = (m, k) if layouts[0] == "N" else (k, m), (k, n) if layouts[1] == "N" else (n, k)
    return a, b


def is_narrow(m: int, n: int, k: int, layouts: str) -> bool:
    """Whether rows of A or B, as they are stored, begin at odd elements, which no asynchronous copy takes.

    >>> is_narrow(64, 64, 63, "NN"), is_narrow(63, 64, 64, "NN")
    (True, False)
    """
    return any(row * BYTES % LEAST_COPY for _, row in stored(m, n, k, layouts))


def aligned(elements: int) -> int:
    """The pitch of aligned rows with this many elements."""
    return -(-elements // PITCH) * PITCH


def widened(m: int, n: int, k: int, layouts: str, multiple: int = ALIGNED, results: bool = True) -> WideProduct | None:
    """The product with rows of multiples of `multiple` elements; None if all rows of A and B, and of C, are such.

    Without `results`, rows of C may begin anywhere.
    """
    in_rows = {"m": layouts[0] == "T", "n": results or layouts[1] == "N", "k": layouts != "TN"}
    wide = [
        aligned(size) if in_rows[name] and size % multiple else size
        for name, size in zip("mnk", (m, n, k), strict=True)
    ]
    sizes = (wide[0], wide[1], wide[2])
    if sizes == (m, n, k):
        return None
    before, after = stored(m, n, k, layouts), stored(*sizes, layouts)
    return WideProduct(sizes, (before[0] != after[0], before[1] != after[1]), sizes[:2] != (m, n))


def pays(m: int, n: int, k: int, wide: WideProduct) -> bool:
    """Whether the copies of a product cost little compared with M N K multiplications: they move their bytes twice."""
    copied = sum(rows for rows, it in ((m * k, wide.copied[0]), (k * n, wide.copied[1]), (m * n, wide.cropped)) if it)
    return m * n * k >= LEAST_WORK and m * n * k >= LEAST_INTENSITY * copied
