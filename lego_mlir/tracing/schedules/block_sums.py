"""`warpgroups` and `warps`: the accumulators of a block's warps become one, in the layout of `wgmma` or `mma.sync`.

A kernel that calls `lego.accumulator`, `lego.mma` and `acc.store` gives each warp a part of the block's product, and
says nothing about which lane holds which element. The parts have to tile a rectangle once; then

    acc = lego.accumulator(f32, 32, 64)              total = lego.register(lego.zeros(f32, layout of 128 x 128))
    lego.mma(part of a, part of b, acc)       -->    total.set(lego.mma(a, b, total))
    acc.store(tile, at=part)                         total.get().to(f16).store(tile)

`warpgroups` gives 16 whole rows of the block's product to each warp, `warps` as large a part as the kernel does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.engine.operand_places import MMA_SYNC, WGMMA
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index
from lego_mlir.expr.ranges import Range
from lego_mlir.f2.boxed import padded
from lego_mlir.f2.encodings import MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, refused, words_in
from lego_mlir.tracing.spread.filled import zeros
from lego_mlir.tracing.spread.variables import SpreadVariable
from lego_mlir.tracing.trace.marks import Rectangle, SumsStored, TileProduct, TileSums
from lego_mlir.tracing.trace.trace import If, Register
from lego_mlir.tracing.trace.wgmma_products import group_columns
from lego_mlir.tracing.words.control import register
from lego_mlir.tracing.words.warp_roles import WARPGROUP

ROWS = 16  # of a product for each warp: wgmma has 64 for each group. PTX ISA, wgmma.mma_async


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """Give the accumulators of a block the layout of `wgmma`. Raises ScheduleError for parts that do not tile.

    Each group of 4 warps has a multiple of 64 rows, or 64 where the number of groups is no power of two. If
    `transposed`, the block multiplies B' A': the rows of the unit are columns of the result, whose rows are then any
    multiple of 8.
    """

    transposed: bool = False

    def __post_init__(self) -> None:
        if type(self.transposed) is not bool:
            raise ScheduleError(f"warpgroups: transposed={self.transposed!r} must be True or False")

    def __str__(self) -> str:
        return "warpgroups(transposed=True)" if self.transposed else "warpgroups"

    def __call__(self, kernel: Kernel) -> Kernel:
        chosen = None if self.transposed else _chosen(kernel, WGMMA, str(self))
        return chosen or Scheduled(kernel, _Unified(groups=True, transposed=self.transposed), str(self))


@dataclass(frozen=True, slots=True)
class Warps:
    """Give the accumulators of a block the layout of `mma.sync`, in parts of the shape that each warp has.

    Raises ScheduleError for parts that do not tile, and for numbers of them along an axis that are no powers of two.
    """

    def __str__(self) -> str:
        return "warps"

    def __call__(self, kernel: Kernel) -> Kernel:
        return _chosen(kernel, MMA_SYNC, str(self)) or Scheduled(kernel, _Unified(groups=False), str(self))


def _chosen(kernel: Kernel, unit: str, schedule: str) -> Kernel | None:
    """The kernel with the layouts of its tiles chosen for a unit; None where it multiplies none without a layout."""
    return None if isinstance(kernel, Scheduled) else kernel.for_unit(unit, schedule)


@dataclass(frozen=True, slots=True)
class _Division:
    """How warps divide a product: first row and column by warp, relative to the least; sizes; warps along each."""

    places: tuple[tuple[int, int], ...]
    extent: tuple[int, int]
    warps: tuple[int, int]


def _divides_columns(extent: tuple[int, int], warps: int) -> bool:
    """Whether groups of warps may divide the columns, which are a power of two then, and have all rows each."""
    rows, columns = extent
    groups = warps // WARPGROUP
    return (
        rows % (WARPGROUP * ROWS) == 0
        and columns & (columns - 1) == groups & (groups - 1) == 0 < columns // groups // 8
    )


class _Unified(Replay):
    def __init__(self, *, groups: bool, transposed: bool = False) -> None:
        self.groups, self.transposed = groups, transposed

    def run(self) -> None:
        self.words = {TileSums: self._make, TileProduct: self._multiply, SumsStored: self._store}
        self.divided: dict[tuple[Register, ...], _Division] = {}
        self.variables: dict[tuple[Register, ...], SpreadVariable] = {}
        for statement, product in words_in(self.trace.body, TileProduct):
            found = self._divide(statement, product)
            if self.divided.setdefault(product.sums, found) != found:
                raise refused(
                    statement.source,
                    "another product of this accumulator gives its parts to other warps; let each warp add to the same "
                    "rows and columns in all of them",
                )
        super().run()

    @cached_property
    def warps(self) -> int:
        return self.threads // WARP

    def _of_warps(self, statement: If, expr: Expr) -> tuple[int, ...]:
        """An index of the warps' parts, relative to the first warp's."""
        if not isinstance(self.threads, int) or self.threads % (WARP * WARPGROUP if self.groups else WARP):
            raise refused(
                statement.source,
                f"a block of {' x '.join(map(str, self.trace.block))} threads: use whole "
                + (f"groups of {WARPGROUP} warps" if self.groups else "warps"),
            )
        lane, expr = sympy.Symbol("lane", integer=True), sympy.sympify(expr)
        first = expr.xreplace(self._thread(0))
        found = []
        for warp in range(self.warps):
            moved = expr.xreplace(self._thread(WARP * warp + lane)) - first
            place = self.tracer.simplified(moved, {lane: Range(0, WARP)})
            if not place.is_Integer:
                raise refused(
                    statement.source,
                    f"the part at {expr} is not proved to be the same for all lanes of warp {warp}: {place} after the "
                    "first warp's; compute it from lego.warp_id",
                )
            found.append(int(place))
        return tuple(found)

    def _thread(self, number: Expr | int) -> dict[Symbol, Expr]:
        """The ids of the thread of this number, x fastest."""
        axes, left = "xyz"[: len(self.trace.block)], Index(sympy.sympify(number))
        found: dict[Symbol, Expr] = {}
        for axis, extent in zip(axes, self.trace.block, strict=True):
            symbol = next((s for s, named in self.trace.ids.items() if named == ("thread_id", axis)), None)
            if symbol is not None:
                found[symbol] = (left if axis == axes[-1] else left % extent).expr
            left = left // extent
        return found

    def _divide(self, statement: If, product: TileProduct) -> _Division:
        left, right = product.tiles
        rows, columns = self._of_warps(statement, left.at[0]), self._of_warps(statement, right.at[1])
        if any(self._of_warps(statement, left.at[1])) or any(self._of_warps(statement, right.at[0])):
            raise refused(
                statement.source, "the warps divide K of a product; write the sum over them, or give each all of K"
            )
        (m, n), least = (left.shape[0], right.shape[1]), (min(rows), min(columns))
        places = tuple((r - least[0], c - least[1]) for r, c in zip(rows, columns, strict=True))
        extent = max(r for r, _ in places) + m, max(c for _, c in places) + n
        tiles = {(r, c) for r in range(0, extent[0], m) for c in range(0, extent[1], n)}
        if set(places) != tiles or len(places) != len(tiles):
            raise refused(
                statement.source,
                f"the warps' parts of {m} x {n} do not tile a rectangle once: they begin at {sorted(places)}",
            )
        side, of_unit = extent[self.transposed], "columns" if self.transposed else "rows"
        whole, several = ROWS * len(places), len(places) & (len(places) - 1) == 0
        if not self.groups:
            self._require_powers(statement, (extent[0] // m, extent[1] // n))
        elif (side % whole or (side > whole and not several)) and (
            self.transposed or not _divides_columns(extent, len(places))
        ):
            of_columns = f", or a multiple of {WARPGROUP * ROWS} rows and a power of two of columns"
            more = "" if self.transposed else of_columns
            raise refused(
                statement.source,
                f"a product of {extent[0]} x {extent[1]} by {len(places)} warps: wgmma has {WARPGROUP * ROWS} "
                f"{of_unit} for each {WARPGROUP} warps; use {'a multiple of ' * several}{whole} {of_unit}, fewer "
                f"warps{more}",
            )
        return _Division(places, extent, (extent[0] // m, extent[1] // n))

    def _require_powers(self, statement: If, warps: tuple[int, int]) -> None:
        for number, axis in zip(warps, ("rows", "columns"), strict=True):
            if number & (number - 1):
                raise refused(
                    statement.source,
                    f"{number} warps divide the {axis} of a product; use a power of two of them along each axis",
                )

    def _layout(self, sums: tuple[Register, ...]) -> LinearLayout:
        divided = self.divided[sums]
        if self.groups and not self.transposed and divided.extent[0] % (ROWS * self.warps):
            return group_columns(*divided.extent, self.warps)
        warps = (*padded((self.warps,)), 1) if self.groups else divided.warps
        return MmaSync(warps).layout(divided.extent[::-1] if self.transposed else divided.extent)

    def _registers(self, sums: tuple[Register, ...]) -> tuple[Register, ...]:
        return tuple(cell.register for cell in self.variables[sums].registers if cell is not None)

    def _make(self, statement: If, mark: TileSums) -> None:
        if mark.sums not in self.divided:
            raise refused(statement.source, "this accumulator has no product; give it a lego.mma, or leave it out")
        with self.tracer.word(lambda: TileSums(self._registers(mark.sums), mark.dtype, self.divided[mark.sums].extent)):
            self.variables[mark.sums] = register(zeros(mark.dtype, self._layout(mark.sums)))

    def _whole(self, rectangle: Rectangle, axis: int, extent: int) -> Rectangle:
        """The block's rectangle of the warps' ones, which begins where that of thread 0 does."""
        first = self._thread(0)
        at = tuple(sympy.sympify(i).xreplace(first) for i in rectangle.at)
        shape = (extent, rectangle.shape[1]) if axis == 0 else (rectangle.shape[0], extent)
        return Rectangle(rectangle.buffer, rectangle.layout, (at[0], at[1]), shape)

    def _multiply(self, statement: If, mark: TileProduct) -> None:
        rows, columns = self.divided[mark.sums].extent
        left, right = mark.tiles
        a, b = self._whole(left, 0, rows), self._whole(right, 1, columns)
        self.product(TileProduct(a, b, self._registers(mark.sums), self._layout(mark.sums), self.transposed))

    def _store(self, statement: If, mark: SumsStored) -> None:
        divided = self.divided[mark.sums]
        rows, columns = (self._of_warps(statement, i) for i in mark.target.at)
        moved = {
            (r - dr, c - dc) for r, c, (dr, dc) in zip(rows, columns, divided.places, strict=True)
        }  # by as much for all warps
        if moved != {(-divided.places[0][0], -divided.places[0][1])}:
            raise refused(
                statement.source,
                "the accumulator's parts are stored in another order than they are multiplied; store each at the rows "
                "and columns of its product",
            )
        whole = self._whole(self._whole(mark.target, 0, divided.extent[0]), 1, divided.extent[1])
        part = self.part(whole)
        stored = SumsStored(self._registers(mark.sums), whole, self._layout(mark.sums), self.transposed)
        with self.tracer.word(stored):
            found = self.variables[mark.sums].get()
            (found.T if self.transposed else found).to(whole.buffer.dtype).store(part.view, at=part.at)
