"""`pipeline(stages)`: the tiles of a staged loop become rings of stages, filled by tile copies that run ahead.

A staged loop copies tiles (`lego.stage`, or stores by threads), meets at a barrier, multiplies them (`lego.mma`), and
meets again. Its tiles become rings (`rings`), and its barriers two rings of mbarriers, full and empty:

    for k in lego.range(steps):               for k in lego.range(steps):
        lego.stage(a, (row, k), ta)               empty[use - stages].wait()
        lego.stage(b, (k, column), tb)            lego.copy_async(a, ta[use], barrier=full[use])   # and b
        lego.barrier()                   -->      full[use].arrive(); full[use].wait()
        lego.mma(ta, tb, acc)                     lego.mma(ta[use], tb[use], acc)
        lego.barrier()                            empty[use - 1].arrive(products="previous")       # not in the first

The first product of a step releases the stage of the step before: products of the matrix unit are in flight across the
edge of the loop. The program is right as it is, and `roles` divides it between warps that copy and warps that multiply.

A copy that reaches outside of a tensor takes as long as a whole one. With `clipped`, a tile with more rows than the
tensor is copied without those outside, which threads set to zero once in all stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import sympy

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout import Row
from lego_mlir.tracing.definition.kernel import Kernel
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.rings import StageCounter, TileRing
from lego_mlir.tracing.schedules.scheduled import Scheduled, ordered_in, refused, shared_in, words_in, written_in
from lego_mlir.tracing.schedules.side_by_side import SideBySide, side_by_side
from lego_mlir.tracing.schedules.sides import side_of
from lego_mlir.tracing.schedules.staged_uses import StagedUses, is_group, outside_copies
from lego_mlir.tracing.schedules.whole_fills import missing
from lego_mlir.tracing.trace.dtypes import f32
from lego_mlir.tracing.trace.marks import (
    COPIES,
    PRODUCTS,
    CopyOut,
    HeldTile,
    OnSide,
    Rectangle,
    RingCopy,
    RingMade,
    RingPass,
    StagedTile,
    ThreadCopies,
    TileProduct,
)
from lego_mlir.tracing.trace.shared_lines import lines_of, panel, ring_layout
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Barrier,
    Buffer,
    For,
    If,
    Load,
    MatrixLoad,
    Read,
    Register,
    Statement,
    Store,
    TensorAccess,
    ToIndex,
    While,
    Write,
    statements_in,
)
from lego_mlir.tracing.words.async_copies import copy_async
from lego_mlir.tracing.words.barrier_rings import BarrierRing, barriers
from lego_mlir.tracing.words.control import barrier, loop, when
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.tensor import View, shared
from lego_mlir.tracing.words.tile_copies import complete_on
from lego_mlir.tracing.words.warps import linear_thread

FEWEST, MOST = 2, 24  # stages
MOST_ROWS = 64  # of a cluster of 8 blocks, 8 rows each


@dataclass(frozen=True, slots=True)
class RingPipeline:
    """Keep `stages` of each staged tile in flight, and let copies run ahead.

    With `narrow`, the panels of a tile have 64 bytes a row where 128 don't divide it; otherwise its last panel is
    filled beyond the tile. With `rounded`, tile copies on sm_90a round f32 to the nearest TF32; the matrix unit
    otherwise cuts off the last 13 bits. A stage has room for a multiple of `rows` rows, so that the blocks of a cluster
    can copy equal parts of a tile of fewer. With `clipped`, rows outside of a tensor with fewer rows than a tile are
    not copied. With `joined`, two products in a row of one left operand are one of twice the columns (`side_by_side`).
    Raises ScheduleError, with the line, for a statement that a ring cannot serve.
    """

    stages: int = 4
    narrow: bool = False
    rounded: bool = False
    rows: int = 1
    clipped: bool = False
    joined: bool = False

    def __post_init__(self) -> None:
        if type(self.stages) is not int or not FEWEST <= self.stages <= MOST:
            raise ScheduleError(f"pipeline: stages={self.stages!r} must be an int from {FEWEST} to {MOST}")
        if type(self.rows) is not int or not 1 <= self.rows <= MOST_ROWS:
            raise ScheduleError(f"pipeline: rows={self.rows!r} must be an int from 1 to {MOST_ROWS}")

    def __str__(self) -> str:
        more = "".join(f", {name}=True" for name in ("narrow", "rounded", "clipped", "joined") if getattr(self, name))
        more += f", rows={self.rows}" if self.rows > 1 else ""
        return f"pipeline(stages={self.stages}{more})"

    def __call__(self, kernel: Kernel) -> Kernel:
        return Scheduled(kernel, _Pipelined(self), str(self))


class _Pipelined(Replay):
    def __init__(self, given: RingPipeline) -> None:
        self.stages, self.narrow, self.rounded, self.rows = given.stages, given.narrow, given.rounded, given.rows
        self.clipped, self.joined = given.clipped, given.joined

    def run(self) -> None:
        self.words = {StagedTile: self._alone, TileProduct: self._other_product}
        body = self.trace.body
        self.staged = StagedUses(self.trace)
        self.loops, self.tiles = self.staged.loops, self.staged.tiles
        self._products = {n: p for n, p in self._products.items() if not p.buffers & self.tiles}
        self.slot = Index(0)
        self.rings: dict[str, TileRing] = {}
        if not self.loops:
            raise refused(
                self.trace.source,
                "no loop copies a tile and uses it in its body; write lego.stage or lego.copy_async, lego.barrier, and "
                "lego.mma or loads of the tile in a lego.range",
            )
        self._require_uses()
        self._require_order()
        self._require_whole()
        self.shared(self.tiles)
        self.pairs = self._pairs() if self.joined else {}
        second = {pair.names[1]: pair.names[0] for pair in self.pairs.values()}
        for buffer in self.trace.shared:
            if buffer.name in self.tiles and buffer.name not in second:
                self.rings[buffer.name] = self._ring(buffer, twice=buffer.name in second.values())
        for name, first in second.items():
            self.rings[name] = replace(self.rings[first], origin=self.rings[first].beside)
        self.tracer.at = self.trace.source
        self.full, self.empty = self._barriers(COPIES), self._barriers(PRODUCTS)
        self.turn = StageCounter(self.stages)
        self.copied: list[AsyncCopy] = []
        self.filled = self._filled() if self.clipped else {}
        for name, rows in self.filled.items():
            self._clear(self.rings[name], rows)
        if self.filled:
            barrier()
        self.body(body)

    # -- what is staged

    def _pairs(self) -> dict[int, SideBySide]:
        """The products that are made one, by the ids of their statements."""
        found = {n: pair for n, pair in side_by_side(self.loops.values()).items() if set(pair.names) <= self.tiles}
        if self.clipped or self.narrow or self.rows > 1 or not found:
            raise refused(
                self.trace.source,
                "joined=True takes two lego.mma in a row into different sums, of one left tile and of two right tiles "
                "alike, staged in the loop, with at most 256 columns together, and neither clipped, narrow nor rows; "
                "leave it out",
            )
        return found

    def _ring(self, buffer: Buffer, *, twice: bool) -> TileRing:
        lines, (rows, columns) = lines_of(buffer.layout), (int(n) for n in buffer.layout.dims())
        transposed = lines is not None and lines.transposed
        inner = (columns, rows) if transposed else (rows, columns)
        self.tracer.at, size = buffer.source, buffer.dtype.bytes
        beyond = -inner[1] % panel(inner[1], size, narrow=self.narrow)
        below = -inner[0] % self.rows
        more = inner[0] if twice and transposed else 0
        columns = (inner[1] + beyond) * (2 if twice and not transposed else 1)
        layout = ring_layout(self.stages, inner[0] + below + more, columns, size, narrow=self.narrow)
        ring = shared(buffer.dtype, layout, buffer.name)
        return TileRing(ring, buffer.layout, transposed, beyond, below, more=more)

    def _barriers(self, side: str) -> BarrierRing:
        found: list[BarrierRing] = []
        with self.tracer.word(lambda: RingMade(found[0].group, self.stages, side)):
            found.append(barriers(self.stages, arrivals=self.threads // WARP))
        return found[0]

    # -- rows outside of a tensor

    def _source(self, mark: StagedTile) -> tuple[View, tuple[Expr, ...]]:
        """What is copied into a ring, and from which index on, as the ring has it."""
        ring, source, at = self.rings[mark.tile.buffer.name], self.view(mark), mark.at
        return (source.T, (at[1], at[0])) if ring.transposed != ring.is_turned(mark.tile.layout) else (source, at)

    def _filled(self) -> dict[str, int]:
        """The rows that are copied of each stage of a ring, where all its tiles have rows outside."""
        found: dict[str, int] = {}
        for _, mark in words_in(self.loops.values(), StagedTile):
            (source, at), name = self._source(mark), mark.tile.buffer.name
            whole, rows = self.rings[name].whole(Index(0)), source.dims()[-2]
            few = isinstance(rows, int) and isinstance(self.tracer.prove(Eq(at[-2], 0)), Proved)
            found[name] = max(found.get(name, 1), self._shared(rows, whole) if few else whole.shape[0])
        return {name: rows for name, rows in found.items() if rows < self.rings[name].whole(Index(0)).shape[0]}

    def _shared(self, rows: int, tile: Part) -> int:
        """The least rows from these on that threads share evenly, each with words of 4 bytes."""
        height, columns = tile.shape
        words = columns * tile.view.dtype.bytes // 4
        return next((n for n in range(rows, height) if n * words % self.threads == 0), height)

    def _clear(self, ring: TileRing, rows: int) -> None:
        """Set what no copy fills of all stages to zero, with all threads."""
        height, columns = ring.whole(Index(0)).shape
        width = WIDEST_ACCESS // ring.view.dtype.bytes
        outside = self.stages, height - rows, columns // width
        self.tracer.at = self.trace.source
        for number in loop(linear_thread(self.tracer), prod(outside), self.threads):
            slot, row, chunk = Row(*outside).inv(number)
            ring.view.store(0, slot * ring.height + rows + row, chunk * width, width=width)

    # -- what a ring cannot serve

    def _require_order(self) -> None:
        self.stored = stored = written_in(self.trace)
        for staged in self.loops.values():
            fills, uses = self.staged.fills(staged.body), self.staged.uses(staged.body)
            if fills[-1] > uses[0]:
                raise refused(
                    staged.body[fills[-1]].source,
                    "a tile is filled after it is used in this step; move lego.stage in front of lego.mma, or of the "
                    "other use",
                )
            if not any(isinstance(s, Barrier) for s in staged.body[fills[-1] : uses[0]]):
                raise refused(
                    staged.body[uses[0]].source,
                    "no lego.barrier() is between the copies and the first use; add it, or elements are read too early",
                )
            for s, mark in words_in(staged.body, StagedTile):
                if mark.tensor.name in stored:
                    raise refused(s.source, _ahead_of(mark.tensor, stored[mark.tensor.name]))

    def _require_uses(self) -> None:
        inside = {id(s) for loop in self.loops.values() for s in statements_in(loop.body)}
        for s in self.trace.statements():
            names = ", ".join(sorted(shared_in(s) & self.tiles)) if _is_single(s) else ""
            if names and id(s) not in inside:
                own = any(s is one for one in statements_in(self.trace.body))
                raise refused(
                    s.source,
                    f"{names} is used outside of the loop that stages it; use another shared tile there"
                    if own
                    else f"{names} is used in a function that is called, and a ring's stages are the kernel's own; "
                    "leave out inline=False",
                )

    def _require_whole(self) -> None:
        """Each step stores all of a tile that threads store into: its stage has nothing of the step before."""
        for staged in self.loops.values():
            filled = {
                s.target.buffer if isinstance(s, AsyncCopy) else s.access.buffer: s.source
                for s in reversed(list(outside_copies(staged.body))) if isinstance(s, Store | AsyncCopy)
            }  # fmt: skip
            for tile in (tile for tile in filled if tile.name in self.tiles):
                self._require_one_turn(staged, tile)
                place = missing(self.trace, staged.body, tile)
                if place is not None:
                    raise refused(
                        filled[tile],
                        f"not shown that each step stores {tile.name}[{', '.join(map(str, place))}], and a stage has "
                        "nothing of the step before; store the whole tile in each step, zeros where nothing is loaded",
                    )

    def _require_one_turn(self, staged: For, tile: Buffer) -> None:
        """No barrier orders the stores of a step into a tile: those who copy store without one."""
        fills = [n for n, s in enumerate(staged.body) if tile.name in self.staged.written(s)]
        between = statements_in(staged.body[fills[0] : fills[-1] + 1])
        if (met := next((s for s in between if isinstance(s, Barrier)), None)) is not None:
            raise refused(
                met.source,
                f"a barrier is between stores into {tile.name}, whose order a stage does not keep; store each element "
                "once in a step",
            )

    def _alone(self, statement: If, mark: StagedTile) -> None:
        if any(isinstance(s, AsyncCopy) for s in statement.then):
            self.branch(statement)
            return
        raise refused(
            statement.source,
            f"lego.stage of {mark.tensor.name} is outside of a loop that multiplies its tile; load the tile by "
            "threads, or move it into the loop",
        )

    def _other_product(self, statement: If, mark: TileProduct) -> None:
        self._require_layout(statement, mark)
        self.product(mark)

    def _require_layout(self, statement: Statement, mark: TileProduct) -> None:
        if mark.layout is None:
            raise refused(statement.source, "the accumulator's layout is open; apply warpgroups before pipeline")

    # -- the new program

    def loop(self, loop: For) -> None:
        """A staged loop is pipelined, and its last stage released after it; any other is copied."""
        if id(loop) not in self.loops:
            super().loop(loop)
            return
        kept = self._meets_in(loop.body) or not self.staged.waits_for_none(loop)
        if not kept and self._meets_around(loop):
            barrier()
        self.inside = loop
        with self.open_loop(loop) as body:
            self.outside = self.tracer.depth
            self._steps(loop.body, Index(loop.symbol), Index(loop.lo), kept)
        self.tracer.append(For(loop.symbol, loop.lo, loop.hi, loop.step, tuple(body), loop.source))
        self.tracer.at = loop.source
        if not self._stay_in_flight(loop.body):
            return
        if isinstance(self.tracer.prove(Lt(loop.lo, loop.hi)), Proved):
            self._word("arrive", self.empty, self.turn.previous(), PRODUCTS)
            return
        with when(Index(loop.lo) < Index(loop.hi)):
            self._word("arrive", self.empty, self.turn.previous(), PRODUCTS)

    def _loads_first(self, body: Sequence[Statement]) -> Sequence[Statement]:
        """A step with what threads load for its tiles in front of the first fill, and tile copies before their stores.

        Loads are under way while the stage is waited for, and a tile copy while threads store. A step is left as it is
        where a statement between its fills has an effect, reads what the kernel writes, or has a register of theirs.
        """
        fills = self.staged.fills(body)
        begin, end = fills[0], fills[-1] + 1
        between = [s for n, s in enumerate(body[begin:end], begin) if n not in fills]
        inside = list(statements_in(tuple(body[n] for n in fills)))
        read, written = ({s.register for s in inside if isinstance(s, kind)} for kind in (Read, Write))
        if any(not self._is_movable(s, read, written) for s in between):
            return body
        copies_first = sorted((body[n] for n in fills), key=lambda s: not any(words_in((s,), StagedTile)))
        return (*body[:begin], *between, *copies_first, *body[end:])

    def _is_movable(self, s: Statement, read: set[Register], written: set[Register]) -> bool:
        """Whether a statement may stand before the fills of its step, which read and write these registers."""
        if not _is_single(s) or side_of(s) is not None or shared_in(s):
            return False
        if isinstance(s, Read | Write) and s.register in (written if isinstance(s, Read) else read | written):
            return False
        return not isinstance(s, Load) or s.access.buffer.name not in self.stored

    def _stay_in_flight(self, body: Sequence[Statement]) -> bool:
        """Whether the uses of a step are products alone, so that the next step's first product releases its stage."""
        uses = [body[n] for n in self.staged.uses(body)]
        marks = [s.mark for s in uses if isinstance(s, If) and isinstance(s.mark, TileProduct)]
        return len(marks) == len(uses) and not any(isinstance(mark.a, HeldTile) for mark in marks)

    def _steps(self, statements: Sequence[Statement], k: Index, first: Index, kept: bool) -> None:
        statements = self._loads_first(statements)
        use, last = self.turn.use(), self.turn.previous()
        self.slot = use % self.stages
        fills, uses = self.staged.fills(statements), self.staged.uses(statements)
        in_flight, ungrouped = self._stay_in_flight(statements), self.staged.waits_for_none(self.inside)
        for number, statement in enumerate(statements):
            self.tracer.at = getattr(statement, "source", None)
            if number == fills[0]:
                self._word("wait", self.empty, use - self.stages, COPIES)
            if number == uses[0]:
                self._word("wait", self.full, use, PRODUCTS)
            if (isinstance(statement, Barrier) and not kept) or (ungrouped and is_group(statement)):
                continue
            if number in fills:
                self._fill(statement, use)
            elif number in uses:
                self._use(statement)
            else:
                self.statement(statement)
            if number == fills[-1]:
                self._complete_on(use)
                self._word("arrive", self.full, use, COPIES)
            if number == uses[0] and in_flight:  # what was issued before, all of the step before, is complete
                with when(k > first):
                    self._word("arrive", self.empty, last, PRODUCTS, "previous")
            if number == uses[-1] and not in_flight:
                self._word("arrive", self.empty, use, PRODUCTS)
        self.turn.next()

    def _word(self, kind: str, ring: BarrierRing, use: IndexLike, side: str, products: bool | str = True) -> None:
        expr = self.tracer.simplified(self.tracer.index(use))
        with self.tracer.word(RingPass(kind, ring.group, expr, side, products)):
            if kind == "wait":
                ring[Index(expr)].wait()
            else:
                ring[Index(expr)].arrive(products=products)

    def _fill(self, statement: Statement, use: IndexLike) -> None:
        """A copy of a tile as a copy on the stage's barrier; a thread's own stores as stores into the stage."""
        slot = use % self.stages
        if isinstance(statement, If) and isinstance(mark := statement.mark, StagedTile):
            ring = self.rings[mark.tile.buffer.name]
            (source, at), part = self._source(mark), ring.whole(slot)
            part = replace(part, shape=(self.filled.get(mark.tile.buffer.name, part.shape[0]), part.shape[1]))
            expr, tile = self.tracer.simplified(self.tracer.index(use)), part.rectangle(self.tracer)
            rounded, since = self._is_rounded(statement, mark), self._since(mark, at[-2])
            with self.tracer.word(
                RingCopy(mark.tensor, source.layout, at, tile, self.full.group, expr, rounded=rounded,
                         below=ring.below, since=since)
            ):  # fmt: skip
                copy_async(source, part, at=tuple(map(Index, at)), barrier=self.full[Index(expr)])
        elif isinstance(statement, Store):
            ring = self.rings[statement.access.buffer.name]
            if ring.transposed or ring.is_turned(statement.access.layout):
                raise refused(
                    statement.source, "threads store into a staged tile of columns; use a tile of rows, or lego.stage"
                )
            access = statement.access
            if access.layout != ring.tile:
                raise refused(
                    statement.source,
                    f"threads store into {access.buffer.name} through another view of it; store by its row and column",
                )
            row, column = access.index
            part = ring.part(slot, (row, column), (1, access.width))
            with self.tracer.word(OnSide(COPIES)):
                found = part.view.place(*part.at).access(access.width)
                stored = self.tracer.use(statement.value)
                self.tracer.append(Store(stored, replace(found, mask=access.mask), statement.source))
        elif isinstance(statement, AsyncCopy):
            self.copied.append(self._into_stage(statement, slot))
        elif isinstance(statement, For | If) and not any(words_in((statement,), StagedTile)):
            self._fill_inside(statement, use)
        else:
            raise refused(
                statement.source,
                "lego.stage is in a branch or a loop in the loop that multiplies its tile; move it into the body of "
                "that loop",
            )

    def _into_stage(self, copy: AsyncCopy, slot: Index) -> AsyncCopy:
        """A copy of a thread with its target in a stage."""
        ring, target, width = self.rings[copy.target.buffer.name], copy.target, copy.target.width
        if copy.origin.buffer.name in self.stored:
            raise refused(copy.source, _ahead_of(copy.origin.buffer, self.stored[copy.origin.buffer.name]))
        if self.tracer.depth > self.outside:
            raise refused(
                copy.source,
                f"threads copy parts of {target.buffer.name} in a branch or a loop, as those of a block do that do not "
                "divide the chunks of a tile; use a block or a tile of more rows so that each thread copies as much",
            )
        part = ring.of(slot, Rectangle(target.buffer, target.layout, target.index, (1, width)))
        place = part.view.place(*part.at)
        if (target.layout != ring.tile and not ring.is_turned(target.layout)) or not place.fits(width):
            raise refused(
                copy.source,
                f"threads copy into {target.buffer.name} through another view of it than .T, or {width} elements that "
                "are not next to each other in a stage; copy rows of the tile, or columns of one of columns",
            )
        return replace(copy, target=replace(place.access(width), mask=target.mask, source=copy.source))

    def _complete_on(self, use: IndexLike) -> None:
        """What threads have copied into a stage, on its barrier."""
        if not self.copied:
            return
        expr = self.tracer.simplified(self.tracer.index(use))
        with self.tracer.word(ThreadCopies(self.full.group, expr)):
            for copy in self.copied:
                self.tracer.append(copy)
            complete_on(self.full[Index(expr)])
        self.copied.clear()

    def _since(self, mark: StagedTile, row: Expr) -> Expr | None:
        """The steps since the loop began, less the stages, where all of them copy the same rows into a ring."""
        loop, name = self.inside, mark.tile.buffer.name
        made = {s.symbol for s in statements_in(loop.body) if isinstance(s, For | ToIndex)} | {loop.symbol}
        fills = sum(name in self.staged.written(s) for s in loop.body)
        if loop.step != 1 or fills > 1 or sympy.sympify(row).free_symbols & made:
            return None
        return self.tracer.simplified(loop.symbol - loop.lo - self.stages)

    def _is_rounded(self, statement: Statement, mark: StagedTile) -> bool:
        if self.rounded and mark.tensor.dtype != f32:
            raise refused(
                statement.source,
                f"rounded=True rounds f32 to TF32, and {mark.tensor.name} has {mark.tensor.dtype}; leave it out",
            )
        return self.rounded

    def _fill_inside(self, outer: For | If, use: IndexLike) -> None:
        """A branch or a loop in which threads store into a stage."""

        def fill(body: Sequence[Statement]) -> None:
            for statement in body:
                self.tracer.at = getattr(statement, "source", None)
                if self.staged.written(statement):
                    self._fill(statement, use)
                else:
                    self.statement(statement)

        if isinstance(outer, For):
            with self.open_loop(outer) as inner:
                fill(outer.body)
            self.tracer.append(replace(outer, body=tuple(inner)))
            return
        with self.tracer.region(outer.condition) as then:
            fill(outer.then)
        with self.tracer.region(sympy.Not(outer.condition)) as otherwise:
            fill(outer.otherwise)
        self.tracer.append(replace(outer, then=tuple(then), otherwise=tuple(otherwise)))

    def _use(self, statement: Statement) -> None:
        """A product of tiles in their stage, or a statement that loads elements there."""
        if not isinstance(statement, If) or not isinstance(mark := statement.mark, TileProduct):
            if product := next(words_in((statement,), TileProduct), None):
                raise refused(
                    product[0].source, "a staged tile is multiplied in a branch; multiply it in the loop's body"
                )
            self.statement(statement)
            return
        self._require_layout(statement, mark)
        pair = self.pairs.get(id(statement))

        def here(given: Rectangle) -> Rectangle:
            ring = self.rings.get(given.buffer.name)
            return given if ring is None else ring.of(self.slot, given).rectangle(self.tracer)

        left = mark.a if isinstance(mark.a, HeldTile) else here(mark.a)
        if pair is None:
            self.product(replace(mark, a=left, b=here(mark.b)))
        elif mark is pair.first and isinstance(left, Rectangle):
            both = self.rings[mark.b.buffer.name].all(self.slot).rectangle(self.tracer)
            self.product(pair.product(left, both))

    def copy(self, statement: Statement) -> None:
        """A statement as it is; an element of a staged tile is loaded from the stage."""
        if names := ", ".join(sorted(shared_in(statement) & self.tiles)):
            if not isinstance(statement, Load | MatrixLoad):
                raise refused(
                    getattr(statement, "source", None) or self.trace.source,
                    f"this {type(statement).__name__} uses {names}, whose stages are filled by copies and stores, "
                    "loaded, and multiplied; use another shared tile for it",
                )
            statement = replace(statement, access=self._staged(statement, statement.access))
        super().copy(statement)

    def _staged(self, statement: Load | MatrixLoad, access: TensorAccess) -> TensorAccess:
        """An access to a staged tile in its stage: of the same elements, whose index a matrix load does not have."""
        ring, layout = self.rings[access.buffer.name], access.layout
        if (layout != ring.tile and not ring.is_turned(layout)) or (access.axis is None and access.width > 1):
            raise refused(
                statement.source,
                f"elements of {access.buffer.name} are loaded through another view of it than .T, or in vectors of "
                "several rows; load them by their row and column in the tile",
            )
        index = access.index
        if isinstance(statement, MatrixLoad) or access.stated != as_expr(layout.apply(*map(Index, index))):
            index = layout.inv(Index(access.position))  # of a boundary, which maps the index, or of a matrix
        row, column = (self.tracer.simplified(self.tracer.index(i)) for i in index)
        across = access.width > 1 and not self.view(access).place(Index(row), Index(column)).fits(access.width)
        shape = (access.width, 1) if across else (1, access.width)
        part = ring.of(self.slot, Rectangle(access.buffer, layout, (row, column), shape))
        part = part.T if across else part  # a vector follows the last axis
        found = part.view.place(*part.at).access(access.width)
        return replace(found, mask=access.mask, by_warp=access.by_warp, source=access.source)

    def _meets_in(self, body: Sequence[Statement]) -> bool:
        """Whether the body's barriers may be needed: by memory that is written and that no ring or word orders."""
        ordered = {id(s) for word, _ in words_in(body, CopyOut) for s in statements_in((word,))}
        return any(
            ordered_in(s, self.stored) - self.tiles
            for s in statements_in(tuple(body))
            if _is_single(s) and id(s) not in ordered
        )

    def _meets_around(self, loop: For) -> bool:
        """Whether the loop's barriers order accesses before it and after it."""
        top = next((n for n, s in enumerate(self.trace.body) if s is loop), None)
        return self._meets_in(self.trace.body if top is None else self.trace.body[:top])


def _ahead_of(tensor: Buffer, store: Statement) -> str:
    """Why copies of a tensor that a kernel writes are refused."""
    where = getattr(store, "source", None)
    return (
        f"{tensor.name} is written by this kernel ({where}), and copies run ahead of it; write the result to another "
        "tensor"
    )


def _is_single(statement: Statement) -> bool:
    """Whether a statement has none inside."""
    return not isinstance(statement, If | For | While)
