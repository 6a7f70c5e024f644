"""Fragments of warp-level instructions by PTX's name: which register of which lane holds which element of a matrix.

| name | matrix |
|---|---|
| `mma.m16n8k16.f16 A` (B, C, D) | an operand or the result of `mma.sync`: MxK, KxN, MxN |
| `wgmma.m64n64k16.f16 A` (D) | the operand in registers, or the result, of a warp group |
| `ldmatrix.x4`, `stmatrix.x2.trans` | 8x8 matrices of 16-bit elements below each other |

Lane r passes the address of row r of the matrices to `ldmatrix`. The shapes of `mma` are those of the PTX ISA for the
type; N of `wgmma` is a power of two. Source: PTX ISA, "Matrix fragments for mma", "Register fragments for wgmma" and
"ldmatrix".

>>> a = fragment("mma.m16n8k16.f16 A")
>>> a.apply(register=2, lane=5, warp=0, block=0)
{'dim0': 9, 'dim1': 2}
>>> fragment("ldmatrix.x4").apply(register=2, lane=5)
{'dim0': 9, 'dim1': 2}
"""

from __future__ import annotations

import re
from typing import Final

from lego_mlir.errors import LayoutError, did_you_mean
from lego_mlir.f2.encodings import MmaOperand, MmaSync, Wgmma
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import without_zero_registers

_MMA: Final = re.compile(r"mma\.m(\d+)n8k(\d+)\.(\w+) ([ABCD])")
_WGMMA: Final = re.compile(r"wgmma\.m64n(\d+)k(\d+)\.(\w+) ([ABD])")
_MATRICES: Final = re.compile(r"(?:ldmatrix|stmatrix)\.x([124])(\.trans)?")
BITS: Final = {
    "f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8,
}  # fmt: skip
MMA_K: Final[dict[int, dict[str, tuple[int, ...]]]] = {
    16: {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "f64": (4, 8, 16), "s8": (16, 32), "u8": (16, 32),
         "e4m3": (32,), "e5m2": (32,)},
    8: {"f64": (4,)},
}  # fmt: skip
"""The sizes K of `mma` by M and type, of those with N = 8 (PTX ISA, "mma")."""
WGMMA_BITS: Final = 256
"""Of a row of A: K elements (PTX ISA, "wgmma.mma_async")."""
GROUP_WARPS: Final = 4

NAMES: Final = (
    *(f"mma.m{m}n8k{k}.{kind} {which}" for m, kinds in MMA_K.items() for kind, ks in kinds.items()
      for k in ks for which in "ABCD"),
    *(f"wgmma.m64n{1 << n}k{WGMMA_BITS // BITS[kind]}.{kind} {which}" for kind in BITS if kind != "f64"
      for n in range(3, 9) for which in "AD"),
    *(f"{moved}.x{count}{trans}" for moved in ("ldmatrix", "stmatrix") for count in (1, 2, 4)
      for trans in ("", ".trans")),
)  # fmt: skip
"""Every name that `fragment` knows."""


def fragment(name: str) -> LinearLayout:
    """The layout from register, lane and warp to the row and column of an instruction's matrix.

    Raises LayoutError for a name that is not in `NAMES`, and for operands that are read from shared memory.
    """
    if (found := _WGMMA.fullmatch(name)) and found[4] == "B":
        raise LayoutError(f"{name}: wgmma reads B from shared memory; see f2.TensorCopyShared and f2.SwizzledShared")
    if name not in NAMES:
        raise LayoutError(
            f"{name!r} is not a fragment of an instruction{did_you_mean(name, NAMES)}; names are such as "
            "'mma.m16n8k16.f16 A', 'wgmma.m64n64k16.f16 D' or 'ldmatrix.x4.trans'"
        )
    if found := _MMA.fullmatch(name):
        return _of_mma(int(found[1]), int(found[2]), BITS[found[3]], found[4])
    if found := _WGMMA.fullmatch(name):
        return _of_wgmma(int(found[1]), int(found[2]), BITS[found[3]], found[4])
    count, transposed = _MATRICES.fullmatch(name).groups()  # type: ignore[union-attr]  # a name of NAMES
    return _of_matrices(int(count), transposed is not None)


def _of_mma(m: int, k: int, bits: int, which: str) -> LinearLayout:
    result = MmaSync((1, 1), (m, 8))
    if which in "CD":
        return result.layout((m, 8))
    operand = MmaOperand("AB".index(which), result, max(1, 32 // bits))
    return without_zero_registers(operand.layout((m, k) if which == "A" else (k, 8)))


def _of_wgmma(n: int, k: int, bits: int, which: str) -> LinearLayout:
    result = Wgmma((GROUP_WARPS, 1), n)
    if which == "D":
        return result.layout((16 * GROUP_WARPS, n))
    return MmaOperand(0, result, 32 // bits).layout((16 * GROUP_WARPS, k))


def _of_matrices(count: int, transposed: bool) -> LinearLayout:
    """Lane l receives a pair of row l / 4 of each matrix, or, transposed, of column l / 4."""
    pair, in_row, down = [(0, 1)], [(0, 2), (0, 4)], [(1, 0), (2, 0), (4, 0)]
    if transposed:
        pair, in_row, down = ([(column, row) for row, column in bases] for bases in (pair, in_row, down))
    matrices = [(8 << bit, 0) for bit in range(count.bit_length() - 1)]
    return LinearLayout({"register": [*pair, *matrices], "lane": [*in_row, *down]}, {"dim0": 8 * count, "dim1": 8})
