"""Index arithmetic in 32 bits where ranges prove that it fits.

A kernel's indices have type index, which lowers to 64 bits, and a GPU computes those in pairs of 32-bit registers; a
64-bit division takes tens of instructions. Most indices are small: thread ids, positions in a tile, positions in a
tensor of less than 2^31 elements. This pass computes the range of every index from the launch's extents, and replaces
arithmetic by the same in i32 where `index_numbers` allows it:

    %p = affine.apply (d0 * 4096 + d1)(%b, %t)        -->  %0 = arith.muli %b32, %c4096 overflow<nsw, nuw> : i32
    %v = memref.load %x[%p] : memref<16777216xf32>         %1 = arith.addi %0, %t32 overflow<nsw, nuw> : i32
                                                           %p = arith.index_cast %1 : i32 to index
                                                           %v = memref.load %x[%p] : memref<16777216xf32>

Loop variables and indices that loops carry become i32 as well. Addresses remain 64 bits wide (`access_positions`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from lego_mlir import bindings
from lego_mlir.aliases import AffineExpr, Block, Op, Type, Value
from lego_mlir.hardware.limits import LARGEST_BLOCK, LARGEST_GRID, THREADS_PER_BLOCK, WARP
from lego_mlir.transforms.index_operations import (
    AFFINE,
    FLOORS,
    I32,
    I64,
    KIND_OF,
    PREDICATES,
    Interval,
    bounds,
    predicate_of,
    union,
    within,
)
from lego_mlir.transforms.kernel_facts import (
    LARGEST_GRID_ATTRIBUTE,
    LARGEST_TENSOR_ATTRIBUTE,
    RANGE_ATTRIBUTE,
    facts_of,
)
from lego_mlir.transforms.modules import parse, session, to_text
from lego_mlir.transforms.passes.access_positions import ACCESSES, AccessPositions
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.index_numbers import IndexNumber, IndexNumbers

T = TypeVar("T")
ROUNDS: Final = 3  # to find the range of what a loop carries, beyond one for each value that is passed on
_AXES: Final = "xyz"
KINDS: Final = {name: kind for name, kind in KIND_OF.items() if kind not in FLOORS}
# Their divisor must be known to be positive, and the dividend of an unsigned one not to be negative.
_FLOORS: Final = {name: kind for name, kind in KIND_OF.items() if kind in FLOORS}
_BOUNDS: Final = 3  # of a loop, before what it carries


@dataclass(frozen=True, slots=True)
class NarrowIndices(FunctionPass):
    """Computes indices in i32 where that is proved to be exact."""

    name = "lego-narrow-indices"

    def run_on(self, function: Op) -> None:
        Narrowing(function).run()


def narrowed(text: str, name: str = "-") -> str:
    """The text of a module, its index arithmetic narrowed: what the nvvm stage's passes begin with."""
    with session():
        module = parse(text, name)
        NarrowIndices().run_on_kernels(module)
        module.operation.verify()
        return to_text(module, locations=True)


class Narrowing:
    """One kernel, operation by operation in order: operands are numbers before their users are reached."""

    def __init__(self, function: Op) -> None:
        self.ir = bindings.load().ir
        self.function = function
        self.largest = _largest(function)
        self.entry = function.regions[0].blocks[0]
        self.make = IndexNumbers(self.entry)
        self.numbers: dict[Value, IndexNumber] = {}
        self.positions = AccessPositions(function, self.make, self.number)

    def run(self) -> None:
        """Rewrite the kernel in place."""
        with self.function.location:
            self._arguments()
            self._block(self.entry)

    def _arguments(self) -> None:
        """The sizes with a declared range, and what they bound; these attributes are of no use to later passes."""
        ir, name = self.ir, "arg_attrs"
        if LARGEST_GRID_ATTRIBUTE in self.function.attributes:
            del self.function.attributes[LARGEST_GRID_ATTRIBUTE]
        if name not in self.function.attributes:
            return
        rest = []
        for argument, described in zip(self.entry.arguments, self.function.attributes[name], strict=False):
            attributes = {entry.name: entry.attr for entry in map(described.__getitem__, range(len(described)))}
            known, elements = (attributes.pop(key, None) for key in (RANGE_ATTRIBUTE, LARGEST_TENSOR_ATTRIBUTE))
            rest.append(ir.DictAttr.get(attributes))
            if elements is not None:
                self.positions.limits[argument] = ir.IntegerAttr(elements).value
            if known is not None and self._is_index(argument):
                low, high = ir.DenseI64ArrayAttr(known)
                number = IndexNumber((low, high), wide=argument)
                if number.fits:
                    with ir.InsertionPoint.at_block_begin(self.entry):
                        number.narrow = self.make.cast(argument, self.make.i32)
                self.numbers[argument] = number
        self.function.attributes[name] = ir.ArrayAttr.get(rest)

    def _block(self, block: Block) -> None:
        for operation in [op.operation for op in block.operations]:
            with operation.location, self.ir.InsertionPoint(operation):
                self._operation(operation)

    def _operation(self, operation: Op) -> None:
        rewrite = _REWRITES.get(operation.name)
        if rewrite is not None:
            rewrite(self, operation)
            return
        for region in operation.regions:
            for inner in region.blocks:
                with self.make.scope():
                    self._block(inner)

    # -- numbers

    def number(self, value: Value) -> IndexNumber:
        """The number of an index value."""
        found = self.numbers.get(value)
        if found is None:
            known = _constant(value)
            found = IndexNumber(I64, wide=value) if known is None else self.make.constant(known)
            self.numbers[value] = found
        return found

    def _replace(self, operation: Op, number: IndexNumber) -> None:
        """Replace an operation's index by a number."""
        wide = self.make.wide(number)
        self.numbers[wide] = number
        operation.results[0].replace_all_uses_with(wide)
        operation.erase()

    def _is_index(self, value: Value) -> bool:
        return bool(value.type == self.make.index)

    # -- operations that make an index

    def _id(self, operation: Op) -> None:
        value = operation.results[0]
        if not self._is_index(value):
            return
        number = IndexNumber(_IDS[operation.name](self.largest, _axis(operation)), wide=value)
        with self.ir.InsertionPoint.after(operation):
            number.narrow = self.make.cast(value, self.make.i32)
        self.numbers[value] = number

    def _binary(self, operation: Op) -> None:
        if not self._is_index(operation.results[0]):
            return
        a, b = map(self.number, operation.operands)
        if operation.name in KINDS:
            self._replace(operation, self.make.compute(KINDS[operation.name], a, b))
        elif b.range[0] > 0 and (a.range[0] >= 0 or _FLOORS[operation.name] != "ceildivu"):
            self._replace(operation, self.make.compute(_FLOORS[operation.name], a, b))

    def _affine(self, operation: Op) -> None:
        self._replace(operation, self._expression(operation, self.number, self.make.constant, self.make.compute))

    def _expression(
        self,
        operation: Op,
        operand: Callable[[Value], T],
        constant: Callable[[int], T],
        compute: Callable[[str, T, T], T],
    ) -> T:
        """The result of an affine.apply, in numbers or in ranges."""
        ir, operands = self.ir, list(operation.operands)
        affine = ir.AffineMapAttr(operation.attributes["map"]).value

        def made(expr: AffineExpr) -> T:
            match expr:
                case ir.AffineConstantExpr():
                    return constant(expr.value)
                case ir.AffineDimExpr():
                    return operand(operands[expr.position])
                case ir.AffineSymbolExpr():
                    return operand(operands[affine.n_dims + expr.position])
            return compute(AFFINE[type(expr).__name__], made(expr.lhs), made(expr.rhs))

        return made(affine.results[0])

    def _select(self, operation: Op) -> None:
        condition, a, b = operation.operands
        if self._is_index(a) and str(condition.type) == "i1":
            self._replace(operation, self.make.select(condition, self.number(a), self.number(b)))

    def _cast(self, operation: Op) -> None:
        """A cast of data to an index, or of an index to data."""
        result, given = operation.results[0], operation.operands[0]
        if self._is_index(given):
            self._to_data(operation, result.type)
        elif self._is_index(result) and result not in self.numbers and given.type.width <= self.make.i32.width:
            bits, ir = given.type.width, self.ir
            signed = operation.name in ("arith.index_cast", "index.casts")
            number = IndexNumber(
                (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1), wide=result
            )
            extension = "arith.extsi" if signed else "arith.extui"
            number.narrow = given
            if bits < self.make.i32.width:
                number.narrow = ir.Operation.create(extension, [self.make.i32], [given]).results[0]
            self.numbers[result] = number

    def _to_data(self, operation: Op, type_: Type) -> None:
        number, wanted = self.number(operation.operands[0]), type_.width
        if wanted > self.make.i32.width or (number.narrow is None and number.constant is None):
            return
        if number.narrow is not None and number.narrow == operation.results[0]:  # a cast of ours
            return
        made = self.make.narrow(number)
        if wanted < self.make.i32.width:
            made = self.ir.Operation.create("arith.trunci", [type_], [made]).results[0]
        operation.results[0].replace_all_uses_with(made)
        operation.erase()

    # -- operations that use one

    def _compare(self, operation: Op) -> None:
        if not self._is_index(operation.operands[0]):
            return
        a, b = map(self.number, operation.operands)
        if not (a.fits and b.fits):
            return
        predicate = PREDICATES.index(predicate_of(operation))
        made = self.make.compare(predicate, self.make.narrow(a), self.make.narrow(b))
        operation.results[0].replace_all_uses_with(made)
        operation.erase()

    def _access(self, operation: Op) -> None:
        self.positions.rewrite(operation)

    # -- loops

    def _loop(self, operation: Op) -> None:
        """A loop: its variable, unless the value that ends it may be beyond i32, and the indices that it carries."""
        low, high, step = map(self.number, list(operation.operands)[:_BOUNDS])
        body = operation.regions[0].blocks[0]
        variable, *arguments = body.arguments
        carried = self._carried(operation)
        if self._is_index(variable) and step.range[0] > 0 and "unsignedCmp" not in operation.attributes:
            known = _taken(low.range, high.range)
            if low.fits and high.fits and step.fits and known[1] + step.range[1] <= I32[1]:
                for place, bound in enumerate((low, high, step)):
                    operation.operands[place] = self.make.narrow(bound)
                self._as_i32(variable, known)
            else:
                self.numbers[variable] = IndexNumber(known, wide=variable)
        for place, known in carried.items():
            first = self.number(operation.operands[place + _BOUNDS])
            operation.operands[place + _BOUNDS] = self.make.narrow(first)
            self._as_i32(arguments[place], known)
        with self.make.scope():
            self._block(body)
            end = list(body.operations)[-1].operation
            with self.ir.InsertionPoint(end):
                for place in carried:
                    end.operands[place] = self.make.narrow(self.number(end.operands[place]))
        for place, known in carried.items():
            self._as_i32(operation.results[place], known)

    def _as_i32(self, value: Value, known: Interval) -> None:
        """Let a block's argument or a result be an i32, and cast it to index for its users."""
        owner, ir = value.owner, self.ir
        value.set_type(self.make.i32)
        at = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
        with at:
            wide = ir.Operation.create("arith.index_cast", [self.make.index], [value]).results[0]
        value.replace_all_uses_except(wide, wide.owner.operation)
        self.numbers[wide] = IndexNumber(known, wide=wide, narrow=value)

    def _carried(self, operation: Op) -> dict[int, Interval]:
        """The indices that a loop carries and that fit i32, by position: the least ranges that hold what it starts
        with and, given them, what it yields."""
        body = operation.regions[0].blocks[0]
        variable, *arguments = body.arguments
        low, high = (self.number(bound).range for bound in list(operation.operands)[: _BOUNDS - 1])
        places = [place for place, value in enumerate(arguments) if self._is_index(value)]
        if not places or not self._is_index(variable):
            return {}
        known = {arguments[place]: self.number(operation.operands[place + _BOUNDS]).range for place in places}
        yielded = list(list(body.operations)[-1].operands)
        rounds = 0
        while True:
            inside = {**known, variable: _taken(low, high)}
            wider = {a: union(known[a], self._range(yielded[p], inside)) for p, a in zip(places, known, strict=True)}
            if wider == known:
                return {p: known[arguments[p]] for p in places if within(known[arguments[p]], I32)}
            rounds += 1
            if rounds > len(places) + ROUNDS:  # what still grows has no bound
                wider = {a: wider[a] if wider[a] == known[a] else I64 for a in known}
            known = wider

    def _range(self, value: Value, known: dict[Value, Interval]) -> Interval:
        """The range of an index inside a loop whose operations are not numbers yet."""
        if value not in known:
            owner, found = getattr(value.owner, "operation", None), None
            if value in self.numbers or owner is None or _constant(value) is not None:
                found = self.number(value).range
            elif owner.name in KINDS:
                found = bounds(KINDS[owner.name], *(self._range(operand, known) for operand in owner.operands))
            elif owner.name == "affine.apply":
                found = self._expression(owner, lambda operand: self._range(operand, known), lambda n: (n, n), _bounds)
            elif owner.name == "arith.select":
                found = union(*(self._range(operand, known) for operand in list(owner.operands)[1:]))
            known[value] = I64 if found is None or not within(found, I64) else found
        return known[value]


def _bounds(kind: str, a: Interval, b: Interval) -> Interval:
    found = bounds(kind, a, b)
    return I64 if found is None or not within(found, I64) else found


def _taken(low: Interval, high: Interval) -> Interval:
    """The values of a loop's variable, while its body runs."""
    return low[0], max(low[0], high[1] - 1)


def _constant(value: Value) -> int | None:
    owner = value.owner
    if getattr(owner, "name", "") not in ("arith.constant", "index.constant"):
        return None
    return int(bindings.load().ir.IntegerAttr(owner.attributes["value"]).value)


def _axis(operation: Op) -> int:
    if "dimension" not in operation.attributes:
        return 0
    return _AXES.index(str(operation.attributes["dimension"]).removesuffix(">").split()[-1])


@dataclass(frozen=True, slots=True)
class LaunchRanges:
    """The ranges of a launch's extents, by axis."""

    block: tuple[Interval, ...]
    grid: tuple[Interval, ...]


def _largest(function: Op) -> LaunchRanges:
    """Exact extents where the module fixes them, otherwise up to its declared ones, or what a launch can be."""
    facts, largest = facts_of(function), LARGEST_GRID
    if LARGEST_GRID_ATTRIBUTE in function.attributes:
        declared = bindings.load().ir.DenseI64ArrayAttr(function.attributes[LARGEST_GRID_ATTRIBUTE])
        largest = tuple(map(min, declared, LARGEST_GRID))
    known = ((facts.block, LARGEST_BLOCK), (facts.grid, largest))
    block, grid = (
        tuple((1, top) for top in tops) if extents is None else tuple((n, n) for n in extents)
        for extents, tops in known
    )
    return LaunchRanges(block, grid)


_IDS: Final[dict[str, Callable[[LaunchRanges, int], Interval]]] = {
    "gpu.thread_id": lambda largest, axis: (0, largest.block[axis][1] - 1),
    "gpu.block_id": lambda largest, axis: (0, largest.grid[axis][1] - 1),
    "gpu.block_dim": lambda largest, axis: largest.block[axis],
    "gpu.grid_dim": lambda largest, axis: largest.grid[axis],
    "gpu.lane_id": lambda largest, axis: (0, WARP - 1),
    "gpu.subgroup_id": lambda largest, axis: (0, THREADS_PER_BLOCK // WARP - 1),
    "gpu.num_subgroups": lambda largest, axis: (1, THREADS_PER_BLOCK // WARP),
    "gpu.subgroup_size": lambda largest, axis: (WARP, WARP),
}
_REWRITES: Final[dict[str, Callable[[Narrowing, Op], None]]] = {
    "affine.apply": Narrowing._affine,
    "scf.for": Narrowing._loop,
    "arith.select": Narrowing._select,
    **dict.fromkeys(("arith.cmpi", "index.cmp"), Narrowing._compare),
    **dict.fromkeys(("arith.index_cast", "arith.index_castui", "index.casts", "index.castu"), Narrowing._cast),
    **dict.fromkeys(ACCESSES, Narrowing._access),
    **dict.fromkeys((*KINDS, *_FLOORS), Narrowing._binary),
    **dict.fromkeys(_IDS, Narrowing._id),
}
