"""`lego.scan`: running combinations of spread values along an axis, by any associative function.

    total = x.cumsum(axis=1)
    h = lego.scan((a, b), 1, lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]))[1]        h[k] = a[k] h[k - 1] + b[k]

Each bit of the axis belongs to a register, a lane or a warp. The low bits that belong to registers make *runs*, which
a thread scans one after the other. A run then has a total and a carry, what comes before it; the higher bits join them,
in order: of two neighbouring blocks the upper one's carry is preceded by the lower one's total.

    register bit    both blocks are the thread's
    lane bits       a scan of the totals by `shuffle_up`
    warp bits       the totals of all these warps through shared memory, with one barrier; the sum of the tile is known

Last a run with a carry is scanned again, from its first element combined with the carry: two combinations an element,
whatever the size; where lanes alone join runs, the scan of the totals has the last element already. The function need
not commute, and has no neutral element: the first blocks have no carry, which is a condition on the lane, and one
selection a run. A layout that mixes bits of the axis with others, or has copies of elements along it, is scanned in a
blocked layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast
from weakref import WeakKeyDictionary

from lego_mlir.errors import brief
from lego_mlir.expr.index import Condition, Index
from lego_mlir.f2.axis_bits import AxisBit, AxisBits, axis_bits, blocked_along
from lego_mlir.f2.boxed import is_inside
from lego_mlir.f2.matrix import combine as combined
from lego_mlir.f2.queries import free_bits
from lego_mlir.f2.shape_ops import shape_of
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.spread.axis_exchange import of_numbers
from lego_mlir.tracing.spread.conversion import convert
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.filled import require_axis
from lego_mlir.tracing.spread.lane_exchange import lane_of
from lego_mlir.tracing.spread.warp_exchange import exchanged, thread_number
from lego_mlir.tracing.trace.dtypes import i1
from lego_mlir.tracing.trace.trace import Statement
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import warps
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.scalar import Scalar, as_value, compute, select

Values: TypeAlias = tuple[Scalar, ...]
Combine: TypeAlias = Callable[[Values, Values], Values]
Joined: TypeAlias = tuple[Values, Scalar | None, Values, Values | None]
"""What precedes a block, where it exists (None for all threads), the total of all blocks, and that up to this one where
it is known."""


def scan(
    tiles: Spread | Sequence[Spread], axis: int, combine: Callable[..., object], reverse: bool = False
) -> Spread | tuple[Spread, ...]:
    """Element k becomes the combination of the elements 0 .. k along an axis; of n - 1 .. k where `reverse`.

    `combine(a, b)` is an associative function of two numbers, where a comes before b. Of several tiles of one layout it
    takes and returns tuples. The result has the layout of the tiles; all threads of the block take part. Raises
    TraceError for tiles of indices or of different shapes, and for a function that returns other types.
    """
    tracer = current("lego.scan")
    if open_tile(*(tiles if isinstance(tiles, tuple | list) else (tiles,))) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.scan(tiles, axis, combine, reverse)
    several, given = not isinstance(tiles, Spread), of_numbers("lego.scan", tiles)
    axis = require_axis("lego.scan", shape_of(given[0].layout), axis)
    dtypes = tuple(tile.dtype for tile in given)

    def checked(a: Values, b: Values) -> Values:
        made = combine(a, b) if several else (combine(a[0], b[0]),)
        if not isinstance(made, tuple) or tuple(getattr(v, "dtype", None) for v in made) != dtypes:
            raise tracer.error(
                f"lego.scan: the function returned {brief(repr(made))}, and of two of {', '.join(map(str, dtypes))} it "
                "returns the same types"
            )
        return tuple(cast(Scalar, v) for v in made)

    undo = _without if combine is _sum and dtypes[0].family == "int" else None
    found, whole = _scanned(tracer, given, axis, checked, reverse, undo)
    if undo and whole is not None:
        _SUMS.setdefault(tracer, []).append((tracer.innermost, given[0], whole[0]))
    return found if several else found[0]


_SUMS: Final[WeakKeyDictionary[Tracer, list[tuple[list[Statement], Spread, Scalar]]]] = WeakKeyDictionary()
"""Tiles of integers that were scanned by addition, with their sums, by the statements where these are computed."""


def sum_of_scan(x: Spread) -> Scalar | None:
    """The sum of a tile of integers where a scan of it, among the same statements, has found that."""
    tracer, held = current("a reduction"), [*map(id, x.registers)]
    here = ((tile, found) for region, tile, found in _SUMS.get(tracer, ()) if region is tracer.innermost)
    same = (found for tile, found in here if tile.layout == x.layout and [*map(id, tile.registers)] == held)
    return next(same, None)


def _sum(a: Scalar, b: Scalar) -> Scalar:
    return compute("add", a, b)


def _without(a: Values, b: Values) -> Values:
    """The integers that sums with `b` are `a` of."""
    return tuple(compute("sub", x, y) for x, y in zip(a, b, strict=True))


def cumulated(called: str, x: Spread, axis: int, reverse: bool) -> Spread:
    """The running sum or product: the methods of `Spread`."""
    combine = _sum if called == "cumsum" else lambda a, b: compute("mul", a, b)
    return cast(Spread, scan(x, axis, combine, reverse))


def _scanned(
    tracer: Tracer, tiles: Sequence[Spread], axis: int, combine: Combine, reverse: bool, undo: Combine | None
) -> tuple[tuple[Spread, ...], Values | None]:
    """The scanned tiles, and the total of all their elements where every thread has it."""
    layout = tiles[0].layout
    bits = axis_bits(layout, axis)
    if bits is None:
        target = blocked_along(layout, axis)
        moved, whole = _scanned(tracer, [convert(tile, target) for tile in tiles], axis, combine, reverse, undo)
        return tuple(convert(tile, layout) for tile in moved), whole
    if any(bit.place == "warp" for bit in bits.each):
        require_uniform(tracer, "a scan of a spread value over several warps")
    copies = free_bits(layout).get("warp", 0)
    apart = (layout.in_sizes["warp"] - 1) ^ copies if copies else None
    work = AxisScan(tracer, bits, combine, undo, reverse, shape_of(layout)[axis], apart)
    elements = [combined(layout.columns_of("register"), register) for register in range(layout.in_sizes["register"])]
    held = {
        element: tuple(cast(Scalar, tile.registers[register]) for tile in tiles)
        for register, element in enumerate(elements)
        if is_inside(layout, register)
    }
    found = work.scanned(held)
    kept = [found.get(element) for element in elements]
    made = (Spread(layout, x.dtype, [None if v is None else v[k] for v in kept]) for k, x in enumerate(tiles))
    return tuple(made), work.whole


@dataclass(slots=True)
class AxisRun:
    """Neighbours in a thread's registers, by their index along the axis in the order of the scan, and their total.

    `carry` is the combination of what comes before the run; it exists where `carried` holds, None for all threads.
    `reached` is that of all up to the end of the run, where it is known.
    """

    elements: dict[int, Values]
    total: Values
    carry: Values | None = None
    carried: Scalar | None = None
    reached: Values | None = None


@dataclass(slots=True)
class AxisScan:
    """A scan along an axis of this size with bits of its own; warps differ in bits of `apart`, None for all bits.

    Where there is an inverse, `undo`, a lane has what comes before it, zero for the first, without a further shuffle.
    """

    tracer: Tracer
    bits: AxisBits
    combine: Combine
    undo: Combine | None
    reverse: bool
    size: int
    apart: int | None
    by_last: bool = False
    """Whether the totals of a warp's lanes are known to its last lane alone, in the order of the scan."""
    whole: Values | None = None
    """The total of a tile whose elements are all along the axis, where the last blocks to be joined are of warps."""

    def scanned(self, held: Mapping[int, Values]) -> dict[int, Values]:
        """The combinations of the elements that a thread holds, by their flat elements."""
        low = self._run_bits()
        by_fiber: dict[int, dict[int, Values]] = {}
        for element, values in held.items():
            by_fiber.setdefault(self.bits.off(element), {})[self.bits.along(element)] = values
        fibers = {off: self._runs(fiber, low) for off, fiber in by_fiber.items()}
        rest = self.bits.each[low:]
        while rest:
            group = self._together(rest)
            rest = rest[len(group) :]
            if rest and rest[0].place == "warp":
                self.by_last = [bit.mask for bit in group] == [1, 2, 4, 8, 16]
            self._join(group, list(fibers.values()), needed=bool(rest))
            if not rest and group[0].place == "warp" and len(fibers) == 1:
                self.whole = next(iter(next(iter(fibers.values())).values())).total
        return {
            off | along << self.bits.start: values
            for off, runs in fibers.items()
            for run in runs.values()
            for along, values in self._after(run).items()
        }

    def _run_bits(self) -> int:
        """The number of low bits of the axis that belong to registers."""
        places = [bit.place for bit in self.bits.each]
        return next((k for k, place in enumerate(places) if place != "register"), len(places))

    def _runs(self, fiber: Mapping[int, Values], low: int) -> dict[int, AxisRun]:
        """The runs of a fiber, by the index of their block."""
        runs: dict[int, AxisRun] = {}
        for along in sorted(fiber, reverse=self.reverse):
            block, values = along >> low, fiber[along]
            if block in runs:
                runs[block].elements[along] = values
                runs[block].total = self.combine(runs[block].total, values)
            else:
                runs[block] = AxisRun({along: values}, values)
        return {block << low: run for block, run in runs.items()}

    def _together(self, rest: Sequence[AxisBit]) -> Sequence[AxisBit]:
        """The first bits that are joined at once: one of a register, lanes at doubling distances, or warps."""
        first = rest[0]
        if first.place == "register":
            return rest[:1]
        count = 1
        while count < len(rest) and rest[count].place == first.place:
            if first.place == "lane" and rest[count].mask != first.mask << count:
                break
            count += 1
        return rest[:count]

    def _join(self, group: Sequence[AxisBit], fibers: Sequence[dict[int, AxisRun]], *, needed: bool) -> None:
        """Join the blocks that differ in these bits; `needed` if their totals are."""
        if group[0].place == "register":
            for fiber in fibers:
                self._join_registers(fiber, 1 << group[0].level)
            return
        runs = [run for fiber in fibers for run in fiber.values()]
        totals = list({id(run.total): run.total for run in runs}.values())
        is_first = all(run.carry is None for run in runs)
        single = is_first and not needed and all(len(run.elements) == 1 for run in runs)
        joined = (
            self._over_lanes(group, totals, needed, single)
            if group[0].place == "lane"
            else self._over_warps(group, totals)
        )
        by_total = {id(total): new for total, new in zip(totals, joined, strict=True)}
        for run in runs:
            before, carried, total, reached = by_total[id(run.total)]
            run.reached = reached if is_first else None
            if run.carry is None:
                run.carry, run.carried = before, carried
            else:
                inner = self.combine(before, run.carry)
                if run.carried is not None:
                    inner = chosen(run.carried, inner, before)
                    run.carried = None if carried is None else run.carried | carried
                run.carry = inner if carried is None else chosen(carried, inner, run.carry)
            run.total = total

    def _join_registers(self, runs: dict[int, AxisRun], bit: int) -> None:
        """Join neighbouring blocks in the thread's registers, each of several runs; outside of a box there are none."""
        blocks: dict[int, tuple[list[AxisRun], list[AxisRun]]] = {}
        for block, run in runs.items():
            halves = blocks.setdefault(block & ~(2 * bit - 1), ([], []))
            halves[bool(block & bit) != self.reverse].append(run)
        made: dict[tuple[int, int], Values] = {}
        for firsts, seconds in blocks.values():
            if not firsts or not seconds:
                continue
            first, second = firsts[0].total, seconds[0].total
            key = id(first), id(second)
            if key not in made:
                made[key] = self.combine(first, second)
            for run in seconds:
                inner = first if run.carry is None else self.combine(first, run.carry)
                run.carry = inner if run.carried is None else chosen(run.carried, inner, first)
                run.carried = run.reached = None
            for run in (*firsts, *seconds):
                run.total = made[key]

    def _over_lanes(
        self, group: Sequence[AxisBit], totals: Sequence[Values], needed: bool, single: bool
    ) -> list[Joined]:
        """The blocks of this lane, joined; of `single` elements only what is up to them is found."""
        lane, step, count = lane_of(self.tracer), group[0].mask, 1 << len(group)
        place = lane // step % count
        shift = warps.shuffle_down if self.reverse else warps.shuffle_up

        def follows(distance: int) -> Scalar:
            return truth(place < count - distance if self.reverse else place >= distance)

        last = lane - place * step if self.reverse else lane + (count - 1 - place) * step
        conditions, found = [follows(1 << k) for k in range(len(group))], list[Joined]()
        for total in totals:
            running = total
            for k, condition in enumerate(conditions):
                before = tuple(shift(v, step << k) for v in running)
                running = chosen(condition, self.combine(before, running), running)
            before = running
            if not single:
                before = self.undo(running, total) if self.undo else tuple(shift(v, step) for v in running)
            whole = tuple(warps.shuffle(v, last) for v in running) if needed and not self.by_last else running
            found.append((before, None if self.undo else conditions[0], whole, running))
        return found

    def _over_warps(self, group: Sequence[AxisBit], totals: Sequence[Values]) -> list[Joined]:
        """The same for the warps, which exchange all totals through shared memory."""
        thread, lane = thread_number(self.tracer), lane_of(self.tracer)
        warp, masks = thread // WARP, [bit.mask for bit in group]
        number, others = Index(0), warp if self.apart is None else warp & self.apart
        for k, mask in enumerate(masks):
            bit = warp // mask % 2
            number, others = number + (bit << k), others - bit * mask
        blocks = [j for j in range(1 << len(group)) if combined([1 << bit.level for bit in group], j) < self.size]
        order = blocks[:: -1 if self.reverse else 1]
        if self.by_last:
            last = lane < 1 if self.reverse else lane > WARP - 2
            parts = exchanged(self.tracer, totals, warp, [others + combined(masks, j) for j in order], last)
        else:
            parts = exchanged(self.tracer, totals, thread, [(others + combined(masks, j)) * WARP + lane for j in order])
        rank = len(order) - 1 - number if self.reverse else number
        found = list[Joined]()
        for each in parts:
            running = before = each[0]
            for k, part in enumerate(each[1:], 1):
                running = self.combine(running, part)
                if k < len(each) - 1:
                    before = chosen(truth(rank > k), running, before)
            found.append((before, truth(rank > 0), running, None))
        return found

    def _after(self, run: AxisRun) -> dict[int, Values]:
        """The elements of a run, each combined with those before it and with what comes before the run."""
        found: dict[int, Values] = {}
        before, last = run.carry, [*run.elements][-1]
        for along, values in run.elements.items():
            if along == last and run.reached is not None:
                found[along] = run.reached
                break
            whole = values if before is None else self.combine(before, values)
            if not found and run.carried is not None:
                whole = chosen(run.carried, whole, values)
            found[along] = before = whole
        return found


def chosen(condition: Scalar, a: Values, b: Values) -> Values:
    """The values of `a` where the condition holds, else those of `b`."""
    return tuple(select(condition, x, y) for x, y in zip(a, b, strict=True))


def truth(condition: Condition) -> Scalar:
    """An index condition as an i1, computed once."""
    return Scalar(as_value(condition, i1))
