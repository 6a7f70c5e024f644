"""Tile code as statements: accumulators in registers, masked loads, broadcasts, fused multiply-adds, rolled loops.

`emit` appends the instructions of `register_tiles.py` and the repeats of `roll.py` to a `Function`. Integers that vary
with the iteration become index arithmetic on the loop variables, shared within a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lego_mlir.errors import PrintError
from lego_mlir.structured.function import SSA, Function
from lego_mlir.structured.structures import ONE, STORED, ZERO
from lego_mlir.structured.vector.register_tiles import (
    Add,
    Begin,
    CholeskyRows,
    Dot,
    EliminateRows,
    FoldDots,
    LeftColumn,
    Multiply,
    OuterProduct,
    Scale,
    Segment,
    SolveLanes,
    SolveRight,
    SolveRows,
    StoreAccumulator,
)
from lego_mlir.structured.vector.roll import Code, LoopPolynomial, Placed, Repeat, TileCall, numbers

# Counted instructions with at most this trip count are always unrolled.
UNROLLED = 2


def emit(function: Function, codes: Sequence[Code], width: int) -> None:
    """Print tile code into a function whose buffers it uses."""
    emitter = _Emitter(function, width)
    for code in codes:
        emitter.run(code.instructions, numbers(code.integers))


class _Emitter:
    def __init__(self, function: Function, width: int) -> None:
        self.f = function
        self.width = width
        self.acc: dict[tuple[int, int], SSA | None] = {}
        self.lanes: dict[int, SSA] = {}
        self.scopes: list[dict[Any, SSA]] = [{}]

    def run(self, instructions: Sequence[object], integers: Iterator[LoopPolynomial]) -> None:
        for instruction in instructions:
            match instruction:
                case Begin(active):
                    self.acc = dict.fromkeys(active)
                    self.lanes = {}
                case TileCall():
                    self.call(instruction, integers)
                case Repeat():
                    self.repeat(instruction, integers)
                case Placed(what, counted=True):
                    self.counted(instruction, integers, self.step if isinstance(what, OuterProduct) else self.dot)
                case Placed(what, groups):
                    self.once(what, _positions(groups, [next(integers) for _ in groups]))
                case FoldDots(sign):
                    self.fold(sign)
                case Multiply(scale):
                    factor = self.scale(scale, self.width)
                    for key, value in self.acc.items():
                        if value is not None and factor is not None:
                            self.acc[key] = self.f.mul(value, factor, self.width)
                case _:
                    raise PrintError(f"tile code: no form for {type(instruction).__name__}")

    def call(self, call: TileCall, integers: Iterator[LoopPolynomial]) -> None:
        """Call the function of a tile, which is emitted on first use."""
        f = self.f
        used = [name for name in f.buffers if name in _buffers(call.body)]
        helper = f.helpers.get(call)
        if helper is None:
            helper = Function(f"{f.name}_tile{len(f.helpers)}", f.element, [(name, f.buffers[name]) for name in used])
            helper.indices = ("row", "column")
            f.helpers[call] = helper
            variables = ("%row", "%column")
            places = (
                LoopPolynomial(
                    base, tuple((((v,), factor)) for v, factor in zip(variables, factors, strict=True) if factor)
                )
                for base, *factors in zip(call.base, call.down, call.across, strict=True)
            )
            _Emitter(helper, self.width).run(call.body, places)
        place = [self.index(next(integers)), self.index(next(integers))]
        f.call(helper, used, place)

    def once(self, what: object, positions: Iterator[LoopPolynomial]) -> None:
        match what:
            case Add():
                self.add(what, positions)
            case SolveRows():
                self.solve_rows(what, positions)
            case SolveLanes():
                self.solve_lanes(what, positions)
            case CholeskyRows():
                self.cholesky_rows(what)
            case EliminateRows():
                self.eliminate_rows(what)
            case SolveRight():
                self.solve_right(what, positions)
            case StoreAccumulator():
                value = self.value(what.row, what.vector)
                for mask in what.masks:
                    self.f.store_vector(what.buffer, self.index(next(positions)), value, mask)
            case _:
                raise PrintError(f"tile code: no form for {type(what).__name__}")

    # positions
    def index(self, index: LoopPolynomial) -> SSA:
        """The SSA value of an index; terms in loop variables are computed once per loop."""
        if not index.terms:
            return self.f.index(index.constant)
        scope = self.scope(index)
        key: Any = index.terms
        if key not in scope:
            total: SSA | None = None
            for variables, factor in index.terms:
                part = variables[0]
                for variable in variables[1:]:
                    part = self.f.index_op("muli", part, variable)
                if factor != 1:
                    part = self.f.index_op("muli", part, self.f.index(factor))
                total = part if total is None else self.f.index_op("addi", total, part)
            scope[key] = str(total)
        if index.constant == 0:
            return scope[key]
        return self.f.index_op("addi", scope[key], self.f.index(index.constant))

    def scope(self, index: LoopPolynomial) -> dict[Any, SSA]:
        """The scope of an index: where it is defined, otherwise the innermost loop."""
        for scope in self.scopes:
            if index.terms in scope:
                return scope
        return self.scopes[-1]

    def scale(self, scale: Scale, width: int) -> SSA | None:
        """The magnitude of a scale, None if it is one."""
        number, scalars = scale
        factors = [] if abs(number) == 1 else [self.f.constant(abs(number))]
        factors += [self.f.load(name, self.f.index(0)) for name in scalars]
        if not factors:
            return None
        product = factors[0]
        for factor in factors[1:]:
            product = self.f.mul(product, factor)
        return self.f.broadcast(product, width)

    # loops
    def repeat(self, repeat: Repeat, integers: Iterator[LoopPolynomial]) -> None:
        count = next(integers)
        first = [next(integers) for _ in range(repeat.arity)]
        steps = [next(integers) for _ in range(repeat.arity)]
        zero, one = self.f.index(0), self.f.index(1)
        with self.f.loop(zero, self.index(count), one) as loop:
            self.scopes.append({})
            inside = (start + step.times(loop.variable) for start, step in zip(first, steps, strict=True))
            self.run(repeat.body, inside)
            self.scopes.pop()

    def counted(self, placed: Placed, integers: Iterator[LoopPolynomial], body: Callable[..., None]) -> None:
        """Repeat the body `count` times, in a loop that carries the accumulators."""
        count = next(integers)
        bases = [next(integers) for _ in placed.groups]
        steps = [next(integers) for _ in placed.groups]
        if not count.terms and count.constant <= UNROLLED:
            for number in range(count.constant):
                here = [base + step.scaled(number) for base, step in zip(bases, steps, strict=True)]
                body(placed.what, _positions(placed.groups, here, placed.strides, number))
            return
        state: dict[Any, Any] = self.acc
        if body == self.dot:
            state = self.lanes
            for lane, one in enumerate(placed.what.lanes):
                if one.masks or one.ones:
                    state.setdefault(lane, self.f.constant(0.0, self.width))
        else:
            for key in state:
                state[key] = self.value(*key)
        keys = sorted(state)
        initial = [state[key] for key in keys]
        with self.f.loop(self.f.index(0), self.index(count), self.f.index(1), initial, self.width) as loop:
            self.scopes.append({})
            state.update(zip(keys, loop.carried, strict=True))
            here = [base + step.times(loop.variable) for base, step in zip(bases, steps, strict=True)]
            body(placed.what, _positions(placed.groups, here, placed.strides, loop.variable))
            loop.results = [state[key] for key in keys]
            self.scopes.pop()
        state.update(zip(keys, loop.values, strict=True))

    # values
    def value(self, row: int, vector: int) -> SSA:
        found = self.acc[row, vector]
        return self.f.constant(0.0, self.width) if found is None else found

    def segment(self, buffer: str, segment: Segment, integers: Iterator[LoopPolynomial]) -> SSA | None:
        """The vector of a segment; None if all lanes are zero."""
        f, value = self.f, None
        if segment.ones is not None:
            value = f.constant(1.0) if self.width == 1 else f.lanes([1.0 if one else 0.0 for one in segment.ones])
        for mask in segment.masks:
            value = f.load_vector(buffer, self.index(next(integers)), mask, value)
        return value

    def accumulate(self, key: tuple[int, int], sign: float, value: SSA) -> None:
        """acc += sign * value."""
        old = self.acc[key]
        if old is None:
            self.acc[key] = value if sign > 0 else self.f.neg(value, self.width)
        else:
            self.acc[key] = (self.f.add if sign > 0 else self.f.sub)(old, value, self.width)

    def multiply_add(self, a: SSA, b: SSA, old: SSA | None) -> SSA:
        if old is None:
            return self.f.mul(a, b, self.width)
        return self.f.fma(a, b, old, self.width)

    # instructions
    def add(self, add: Add, integers: Iterator[LoopPolynomial]) -> None:
        factor = self.scale(add.scale, self.width)
        sign = add.scale[0]
        found: dict[int, list[SSA]] = {}
        for row, segment in enumerate(add.rows):
            value = self.segment(add.buffer, segment, integers)
            if value is not None:
                found.setdefault(row, []).append(value)
        if add.columns:
            columns = [self.segment(add.buffer, segment, integers) for segment in add.columns]
            for row, value in enumerate(self.transpose(columns)):
                found.setdefault(row, []).append(value)
        for row, values in found.items():
            key = (add.row + row, add.vector)
            if key not in self.acc:
                continue
            for value in values:
                if factor is None:
                    self.accumulate(key, sign, value)
                else:
                    self.acc[key] = self.multiply_add(value, self.signed(factor, sign), self.acc[key])

    def signed(self, value: SSA, sign: float) -> SSA:
        return value if sign > 0 else self.f.neg(value, self.width)

    def transpose(self, columns: Sequence[SSA | None]) -> list[SSA]:
        """The transpose of a square of vectors: swap halves, then quarters, and so on."""
        f, width = self.f, self.width
        rows = [f.constant(0.0, width) if column is None else column for column in columns]
        distance = width // 2
        while distance:
            swapped = list(rows)
            for low in range(width):
                if low & distance:
                    continue
                high = low + distance
                a, b = rows[low], rows[high]
                near = [lane if not lane & distance else width + lane - distance for lane in range(width)]
                far = [lane + distance if not lane & distance else width + lane for lane in range(width)]
                swapped[low], swapped[high] = f.shuffle(a, b, near, width), f.shuffle(a, b, far, width)
            rows = swapped
            distance //= 2
        return rows

    def step(self, step: OuterProduct, integers: Iterator[LoopPolynomial]) -> None:
        f = self.f
        sign = step.scale[0]
        factor = self.scale(step.scale, 1)
        places = [[next(integers) if kind == STORED else None for kind in part.kinds] for part in step.left]
        right = [self.segment(step.right_buffer, segment, integers) for segment in step.right]
        for row, (kinds, at) in enumerate(
            zip(zip(*(part.kinds for part in step.left), strict=True), zip(*places, strict=True), strict=True)
        ):
            used = [v for v, value in enumerate(right) if value is not None and (row, v) in self.acc]
            if not any(kind != ZERO for kind in kinds) or not used:
                continue
            left = self.summed(step.left, kinds, at)
            if left is not None:
                left = left if factor is None else f.mul(left, factor)
            elif factor is not None:
                left = factor
            spread = None if left is None else self.signed(f.broadcast(left, self.width), sign)
            for v in used:
                value = right[v]
                if value is None:
                    continue
                if spread is None:
                    self.accumulate((row, v), sign, value)
                else:
                    self.acc[row, v] = self.multiply_add(spread, value, self.acc[row, v])

    def summed(
        self, parts: Sequence[LeftColumn], kinds: Sequence[int], places: Sequence[LoopPolynomial | None]
    ) -> SSA | None:
        """An element of the left factor, the sum of its parts; None for one."""
        f = self.f
        ones = sum(part.number for part, kind in zip(parts, kinds, strict=True) if kind == ONE)
        loads = [
            (part.number, f.load(part.buffer, self.index(place)))
            for part, place in zip(parts, places, strict=True)
            if place is not None
        ]
        if not loads and ones == 1:
            return None
        loads.sort(key=lambda load: -load[0])
        total = f.constant(ones) if ones or not loads else None
        for number, value in loads:
            if total is None:
                total = value if number > 0 else f.neg(value)
            else:
                total = f.add(total, value) if number > 0 else f.sub(total, value)
        return total

    def dot(self, dot: Dot, integers: Iterator[LoopPolynomial]) -> None:
        f = self.f
        left = self.segment(dot.left_buffer, dot.left, integers)
        if left is None:
            raise PrintError("a dot product with an empty left factor")
        factor = self.scale(dot.scale, self.width)
        left = left if factor is None else f.mul(left, factor, self.width)
        for lane, segment in enumerate(dot.lanes):
            value = self.segment(dot.right_buffer, segment, integers)
            if value is not None:
                self.lanes[lane] = self.multiply_add(left, value, self.lanes.get(lane))

    def fold(self, sign: float) -> None:
        """Reduce each lane vector and concatenate the sums: halves are added, two vectors at a time."""
        f, width = self.f, self.width
        zero = f.constant(0.0, width)
        rows = [self.lanes.get(lane, zero) for lane in range(width)]
        part = width
        while len(rows) > 1:
            half, part = len(rows) // 2, part // 2
            low = [
                lane + side * width + s for s in range(0, width, 2 * part) for side in (0, 1) for lane in range(part)
            ]
            high = [index + part for index in low]
            folded = []
            for a, b in zip(rows[:half], rows[half:], strict=True):
                if a == b == zero:
                    folded.append(zero)
                else:
                    folded.append(f.add(f.shuffle(a, b, low, width), f.shuffle(a, b, high, width), width))
            rows = folded
        self.lanes = {}
        self.accumulate((0, 0), sign, rows[0])

    def solve_rows(self, solve: SolveRows, integers: Iterator[LoopPolynomial]) -> None:
        f, width = self.f, self.width
        places = {
            (r, c): next(integers)
            for r, kinds in enumerate(solve.kinds)
            for c, kind in enumerate(kinds)
            if kind == STORED
        }
        vectors = sorted({v for _, v in self.acc})
        inverse = {
            r: f.broadcast(f.div(f.constant(1.0), f.load(solve.buffer, self.index(places[r, r]))), width)
            for r in solve.order
            if (r, r) in places
        }
        for position, r in enumerate(solve.order):
            for v in vectors:
                if (r, v) in self.acc and r in inverse:
                    self.acc[r, v] = f.mul(self.value(r, v), inverse[r], width)
            for s in solve.order[position + 1 :]:
                if (s, r) not in places:
                    continue
                spread = f.neg(f.broadcast(f.load(solve.buffer, self.index(places[s, r])), width), width)
                for v in vectors:
                    if (r, v) in self.acc and (s, v) in self.acc:
                        self.acc[s, v] = f.fma(spread, self.value(r, v), self.value(s, v), width)

    def spread(self, value: SSA, lane: int) -> SSA:
        """Broadcast one lane to all lanes."""
        return value if self.width == 1 else self.f.shuffle(value, value, [lane] * self.width, self.width)

    def cholesky_rows(self, step: CholeskyRows) -> None:
        f, width = self.f, self.width
        for r in range(step.rows):
            root = f.sqrt(f.lane(self.value(r, 0), r, width))
            inverse = f.broadcast(f.div(f.constant(1.0), root), width)
            row = f.mul(self.value(r, 0), inverse, width)
            self.acc[r, 0] = row
            for s in range(r + 1, step.rows):
                factor = f.neg(self.spread(row, s), width)
                self.acc[s, 0] = f.fma(factor, row, self.value(s, 0), width)

    def eliminate_rows(self, step: EliminateRows) -> None:
        f, width = self.f, self.width
        zero = f.constant(0.0, width)
        for r in range(step.rows):
            row = self.value(r, 0)
            inverse = f.broadcast(f.div(f.constant(1.0), f.lane(row, r, width)), width)
            above = f.neg(f.select([lane > r for lane in range(width)], row, zero), width)
            for s in range(r + 1, step.rows):
                self.eliminate(s, r, inverse, above)

    def eliminate(self, row: int, lane: int, inverse: SSA, above: SSA) -> None:
        """Divide a lane of a row by the pivot, store the quotient there, and subtract it times the pivot row."""
        f, width = self.f, self.width
        old = self.value(row, 0)
        quotient = f.mul(self.spread(old, lane), inverse, width)
        reduced = f.fma(quotient, above, old, width)
        self.acc[row, 0] = f.select([other == lane for other in range(width)], quotient, reduced)

    def solve_right(self, step: SolveRight, positions: Iterator[LoopPolynomial]) -> None:
        f, width = self.f, self.width
        pivots = [f.load(step.buffer, self.index(next(positions))) for _ in step.order]
        rows = [self.segment(step.buffer, segment, positions) for segment in step.rows]
        zero = f.constant(0.0, width)
        for c, pivot in zip(step.order, pivots, strict=True):
            inverse = f.broadcast(f.div(f.constant(1.0), pivot), width)
            above = f.neg(rows[c] or zero, width)
            for row, vector in list(self.acc):
                if vector == 0:
                    self.eliminate(row, c, inverse, above)

    def solve_lanes(self, solve: SolveLanes, integers: Iterator[LoopPolynomial]) -> None:
        """Scale the unknowns and the triangle's rows by the inverse diagonal first, so the dependence chain between
        unknowns is one broadcast and one multiply-add."""
        f, width = self.f, self.width
        stored = [c for c in range(width) if solve.diagonal[c] == STORED]
        scalars = dict.fromkeys(range(width), f.constant(1.0))
        ordered = [c for c in sorted(solve.order) if c in stored]
        for c in ordered:
            scalars[c] = f.load(solve.buffer, self.index(next(integers)))
        rows = [self.segment(solve.buffer, segment, integers) for segment in solve.rows] or [None] * width
        if solve.columns:
            columns = [self.segment(solve.buffer, segment, integers) for segment in solve.columns]
            transposed = self.transpose(columns)
            rows = [b if a is None else f.add(a, b, width) for a, b in zip(rows, transposed, strict=True)]
        value = self.value(0, 0)
        inverse = None
        if ordered:
            diagonal = f.from_lanes([scalars[c] for c in range(width)])
            inverse = f.div(f.constant(1.0, width), diagonal, width)
            value = f.mul(value, inverse, width)
        for c in solve.order:
            row = rows[c]
            if row is None or c == solve.order[-1]:
                continue
            scaled = row if inverse is None else f.mul(row, inverse, width)
            spread = f.neg(f.shuffle(value, value, [c] * width, width), width) if width > 1 else f.neg(value)
            value = f.fma(spread, scaled, value, width)
        self.acc[0, 0] = value


def _buffers(body: Sequence[object]) -> set[str]:
    """The buffers used by these instructions."""
    found: set[str] = set()
    for outer in body:
        instruction = outer.what if isinstance(outer, Placed) else outer
        for field in ("buffer", "left_buffer", "right_buffer"):
            found.add(getattr(instruction, field, ""))
        if isinstance(instruction, OuterProduct):
            found.update(part.buffer for part in instruction.left)
        found.update(getattr(instruction, "scale", (1.0, ()))[1])
    return found


def _positions(
    groups: Sequence[Sequence[int]],
    bases: Sequence[LoopPolynomial],
    strides: Sequence[Sequence[int]] = (),
    time: int | str = 0,
) -> Iterator[LoopPolynomial]:
    """All positions of an instruction, from the first position of each group."""
    for number, (group, base) in enumerate(zip(groups, bases, strict=True)):
        for place, offset in enumerate(group):
            stride = strides[number][place] if strides else 0
            extra = LoopPolynomial(stride).times(time) if isinstance(time, str) else LoopPolynomial(stride * time)
            yield base + LoopPolynomial(offset) + extra
