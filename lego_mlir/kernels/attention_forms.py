"""What attention computes, and the tiles that its kernels may have: choices, made without tracing or SymPy.

A kernel takes all numbers of heads, queries and keys: a new length compiles nothing. For a form there are at most three
kernels, of which `fastest` takes one by the lengths.

>>> form = AttentionForm(64, causal=True)
>>> len({fastest(form, (32, n, n), 132) for n in range(64, 9000, 64)})
2
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.tracing.dtypes import DType, bf16, f16

if TYPE_CHECKING:
    from lego_mlir.aliases import Operand

HEADS: Final = (64, 128, 256)
ROWS: Final = 64
"""Queries of a group of warps."""
WARPS: Final = 4
"""Warps of a group, and of the role that copies."""
WIDEST_ADDED: Final = 128
"""Features of a head up to which the sums of gradients of a group fit its registers."""
WIDE: Final = 256
"""Features of a head from which on accumulators of dk and dv together take more registers than a thread has."""
SHORT: Final = 1024
"""Keys of a short causal part."""
LOG2_E: Final = math.log2(math.e)


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """What attends to what: with a `window`, to that many keys up to the query's own. `group` heads share k, v.

    Scores are products times `scale`, 1 / sqrt(features) if left out.
    """

    features: int = 64
    dtype: DType = f16
    causal: bool = False
    window: int | None = None
    group: int = 1
    scale: float | None = None

    def __post_init__(self) -> None:
        if self.features not in HEADS or self.dtype not in (f16, bf16):
            raise UsageError(
                f"attention: heads of {', '.join(map(str, HEADS))} features in f16 or bf16, got {self.features} in "
                f"{self.dtype}"
            )
        if self.window is not None and (not self.causal or type(self.window) is not int or self.window < 1):
            raise UsageError(f"attention: window={self.window!r} is a number of keys from 1 on, with causal=True")
        if self.group < 1:
            raise UsageError(f"attention: group={self.group} query heads share a head of k and v, at least 1")
        if self.scale is not None and not is_positive(self.scale):
            raise UsageError(f"attention: scale={self.scale!r} is a positive number; for a negative one, negate q")

    def require_keys(self, queries: int, keys: int) -> None:
        """Raise UsageError where the last queries are too far behind the last key for the window."""
        if self.window is not None and 0 < keys <= queries - self.window:
            lost = queries - self.window - keys + 1
            raise UsageError(
                f"attention of {queries} queries to {keys} keys with window={self.window}: the last {lost} queries "
                f"would attend to no key; pass at most {keys + self.window - 1} queries, or a window of at least "
                f"{queries - keys + 1}"
            )

    @property
    def factor(self) -> float:
        """Of products of queries and keys."""
        return 1 / math.sqrt(self.features) if self.scale is None else float(self.scale)

    @property
    def exponent(self) -> float:
        """The factor of scores that are exponents of 2."""
        return LOG2_E / math.sqrt(self.features) if self.scale is None else LOG2_E * self.factor

    def reaches(self, row: Operand, column: Operand) -> Operand:
        """Whether a query attends to a key, with `causal`."""
        return column <= row if self.window is None else (column <= row) & (column > row - self.window)

    def allowed(self, row: Operand, column: Operand, keys: Operand) -> Operand:
        """Whether a query attends to a key, of `keys` there are."""
        return (column < keys) & self.reaches(row, column) if self.causal else column < keys


def is_positive(scale: object) -> bool:
    """Whether this is a positive, finite number, NumPy's included."""
    return isinstance(scale, Real) and 0 < float(scale) < math.inf


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """Groups of 4 warps with 64 rows each, keys of a tile, tiles in each ring, and which weights are polynomials.

    Of every `polynomials` weights one is computed by multiply-adds, which relieves the unit of exponentials; 0: none.
    With `turns`, the groups multiply one after the other, so that each computes weights while another multiplies.
    """

    groups: int = 2
    keys: int = 128
    stages: int = 2
    polynomials: int = 0
    turns: bool = False

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return ROWS * self.groups

    @property
    def warps(self) -> int:
        """Those that compute; 4 more copy."""
        return WARPS * self.groups

    @property
    def registers(self) -> tuple[int | None, int | None]:
        """Of a thread that copies, and of one that computes: all those of an SM."""
        return {1: (None, None), 2: (24, 240), 3: (32, 160), 4: (24, 112)}[self.groups]


def default_tile(form: AttentionForm) -> AttentionTile:
    """Accumulators and weights of a thread fit its registers."""
    return {64: AttentionTile(3, 64, 4), 128: AttentionTile(2, 128), 256: AttentionTile(2, 64)}[form.features]


def fastest(form: AttentionForm, sizes: tuple[int, int, int], multiprocessors: int) -> tuple[AttentionTile, int | None]:
    """The tile for these sizes, and the blocks of the launch: a block for each part, None, or one a multiprocessor.

    Short parts take so little time that copying the next queries during them pays. Long ones differ too much with a
    causal mask; the hardware balances them better. With 64 features exponentials take as long as products: two groups
    that multiply in turns are the quickest for short parts and causal ones, four groups of 64 keys for long ones.
    (Measured on an H200 at 1024 to 16,384 positions.)
    """
    heads, queries, keys = sizes
    tile, short = default_tile(form), SHORT if form.causal else 2 * SHORT
    if form.features == HEADS[0] and (form.window is None or keys <= SHORT):
        short = 4 * SHORT if form.causal else 2 * SHORT
        tile = AttentionTile(2, 128, 4, turns=True) if form.causal or keys <= short else AttentionTile(4, 64, 4)
    parts = -(-queries // tile.rows) * heads * form.group
    return tile, multiprocessors if keys <= short and parts > multiprocessors else None


def tiles(form: AttentionForm, multiprocessors: int) -> Iterator[tuple[AttentionTile, int | None]]:
    """What `fastest` takes for a form at all lengths: a tile and the blocks of the launch.

    >>> len(list(tiles(AttentionForm(64), 132)))
    3
    """
    lengths = (1, SHORT, 2 * SHORT, 4 * SHORT, 4 * SHORT + 1)
    heads = (1, 2 * multiprocessors)
    yield from dict.fromkeys(fastest(form, (h, n, n), multiprocessors) for h in heads for n in lengths)


def passes_of_keys(form: AttentionForm) -> int:
    """The kernels of `attention_gradients` for dk and dv."""
    return 1 if form.features < WIDE else 2
