"""The largest absolute value of a result, read off a kernel and written for fragments of sums.

A kernel keeps the maximum of its elements in a variable, combines the lanes of a warp by a butterfly of shuffles, and
updates an argument of one f32 by an atomic maximum:

    for each of a thread's vectors v, where it is stored:   m = max(m, |v[0]|, |v[1]|, ..)
    m = max(m, shuffle xor m, 1), then 2, 4, 8, 16;          one lane of each warp:  atomic max of the argument

A maximum is the same in any order and with any element counted twice, so all that is proved here is that each element
which is stored is counted, and no other number: terms of the maximum are followed through loops and branches. The new
kernel then counts the elements of its fragments. Bits of numbers without a sign are in the order of the numbers, so
a maximum over a warp, and over all blocks, is one of integers; NaN is the largest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.modules import ModuleError
from lego_mlir.transforms.passes.operations import operations, producer
from lego_mlir.transforms.warpgroups.axis_sums import IndexValues
from lego_mlir.transforms.warpgroups.fragment_values import LINES, FragmentValues
from lego_mlir.transforms.warpgroups.module_text import ModuleText, operand_name
from lego_mlir.transforms.warpgroups.stored_values import LargestNode

UPDATE: Final = "memref.atomic_rmw"
_DISTANCES: Final = (1, 2, 4, 8, 16)
_SIZE: Final = "math.absf"


@dataclass(frozen=True, slots=True)
class CountedLane:
    """Lane `lane` of a vector `value`, or a number, whose absolute value is a term of a maximum."""

    value: Value
    lane: int


Terms = frozenset[CountedLane | Value]
"""The terms of a maximum: elements, and variables of the loops around."""


class LargestReader:
    """Reads the updates of one kernel's tile. `stores` has the store that each load of C's tile goes to."""

    def __init__(
        self, arguments: list[Value], index: IndexValues, thread_axis: str, threads: int, stores: Mapping[Op, Op]
    ) -> None:
        self.arguments, self.index, self.thread_axis, self.threads = arguments, index, thread_axis, threads
        self.stores = stores
        self.known: dict[Value, Terms] = {}

    def read(self, update: Op) -> tuple[int, dict[Op, Value]]:
        """The argument that an update changes, and the value of each load of C's tile that it counts.

        Raises ModuleError for an update of another kind.
        """
        value, memory, *indices = list(update.operands)
        one = memory in self.arguments and str(memory.type).startswith("memref<1xf32")
        if not _is_maximum(update):
            raise ModuleError(f"{update.location}: an atomic update that is not a maximum; {_WANTED}")
        if not one or len(indices) != 1 or self.index.of(indices[0]).fixed != 0:
            raise ModuleError(f"{update.location}: the maximum must go to an argument of one f32; {_WANTED}")
        self._require_one_lane(update)
        found: dict[Op, dict[Value, set[int]]] = {}
        for term in self._terms(self._of_lane(update, value)):
            if not isinstance(term, CountedLane):
                raise ModuleError(f"{update.location}: the maximum of some iterations of a loop only; {_WANTED}")
            found.setdefault(self._source(term.value), {}).setdefault(term.value, set()).add(term.lane)
        counted = {}
        for load in self.stores:
            lanes = found.pop(load, {})
            if len(lanes) != 1 or (whole := next(iter(lanes.items())))[1] != set(range(_width(whole[0]))):
                raise ModuleError(f"{load.location}: elements of C that are not counted in a maximum; {_WANTED}")
            counted[load] = whole[0]
        return self.arguments.index(memory), counted

    def _require_one_lane(self, update: Op) -> None:
        """A lane of every warp must update, under a condition of the thread alone."""
        branch = update.parent.operation
        if branch.name != "scf.if":
            return
        holds = self.index.of(branch.operands[0])
        if not holds.axes <= {self.thread_axis}:
            raise ModuleError(f"{branch.location}: an update of some tiles only; {_WANTED}")
        lanes = np.broadcast_to(holds.over((self.thread_axis,)), (self.threads,)).reshape(-1, WARP)
        if not lanes.any(axis=1).all():
            raise ModuleError(f"{branch.location}: an update without some warps; {_WANTED}")

    def _of_lane(self, update: Op, value: Value) -> Value:
        """The maximum of a lane, of which `value` is that of its warp."""
        distances = set()
        while (found := self._exchanged(value)) is not None:
            value, distance = found
            distances.add(distance)
        if distances != set(_DISTANCES):
            raise ModuleError(f"{update.location}: the maximum of some lanes only, after exchanges over distances of "
                              f"{', '.join(map(str, sorted(distances))) or 'none'}; {_WANTED}")  # fmt: skip
        return value

    def _exchanged(self, value: Value) -> tuple[Value, int] | None:
        """What max(x, shuffle xor x, distance) combines: x and the distance."""
        combined = producer(value)
        if combined is None or combined.name != "arith.maximumf":
            return None
        for own, other in (tuple(combined.operands), tuple(combined.operands)[::-1]):
            shuffle = producer(other)
            if shuffle is None or shuffle.name != "gpu.shuffle" or shuffle.operands[0] != own:
                continue
            distance, width = (self.index.of(operand).fixed for operand in list(shuffle.operands)[1:])
            if "xor" in str(shuffle.attributes["mode"]) and width == WARP and distance is not None:
                return own, distance
        return None

    # -- the terms of a thread

    def _terms(self, value: Value) -> Terms:
        if value not in self.known:
            self.known[value] = self._computed(value)
        return self.known[value]

    def _computed(self, value: Value) -> Terms:
        operation = producer(value)
        if operation is None:
            return frozenset({value})
        number = list(operation.results).index(value)
        match operation.name:
            case "arith.constant" if _is_zero(operation):
                return frozenset()
            case "arith.maximumf":
                return frozenset().union(*(self._combined(operation, operand) for operand in operation.operands))
            case "scf.if":
                inside, outside = (
                    self._terms(operations(region.blocks[0])[-1].operands[number]) for region in operation.regions
                )
                if outside <= inside:
                    return inside
            case "scf.for":
                body = operation.regions[0].blocks[0]
                own = body.arguments[1 + number]
                inside = self._terms(operations(body)[-1].operands[number])
                if own in inside:
                    return (inside - {own}) | self._terms(operation.operands[3 + number])
        raise ModuleError(f"{operation.location}: {operation.name} in a maximum; {_WANTED}")

    def _combined(self, maximum: Op, operand: Value) -> Terms:
        """The terms of an operand of a maximum: an element that is stored wherever the maximum is computed, or more."""
        lane = _lane_of(operand)
        if lane is None:
            return self._terms(operand)
        if self.stores[self._source(lane.value)].block != maximum.block:
            raise ModuleError(f"{maximum.location}: elements are counted that are not stored; {_WANTED}")
        return frozenset({lane})

    def _source(self, value: Value) -> Op:
        """The load of C's tile that an element is computed from."""
        open_, seen = [value], set()
        while open_:
            operation = producer(open_.pop())
            if operation is None or operation in seen:
                continue
            if operation in self.stores:
                return operation
            seen.add(operation)
            open_.extend(operation.operands)
        raise ModuleError(f"{value}: a number that is no element of C in a maximum; {_WANTED}")


_WANTED: Final = "warpgroups compute maxima of all elements of C, as epilogues.amax() does"


def _lane_of(value: Value) -> CountedLane | None:
    """The element whose absolute value this is."""
    operation, lane = producer(value), 0
    if operation is not None and operation.name == "vector.extract" and len(operation.operands) == 1:
        ir = bindings.load().ir
        (lane,) = ir.DenseI64ArrayAttr(operation.attributes["static_position"])
        operation = producer(operation.operands[0])
    if operation is None or operation.name != _SIZE:
        return None
    return CountedLane(operation.operands[0], lane)


def _width(value: Value) -> int:
    ir = bindings.load().ir
    return int(value.type.shape[0]) if isinstance(value.type, ir.VectorType) else 1


def _is_maximum(update: Op) -> bool:
    kind = bindings.load().dialect("arith").AtomicRMWKind.maximumf
    return bool(bindings.load().ir.IntegerAttr(update.attributes["kind"]).value == int(kind))


def _is_zero(constant: Op) -> bool:
    return bool(bindings.load().ir.FloatAttr(constant.attributes["value"]).value == 0)


@dataclass(slots=True)
class LargestOfFragments:
    """The maxima of a thread's elements of one tile, while they are stored: names of f32 values by node and line."""

    text: ModuleText
    thread: str
    found: dict[tuple[int, str | None], str] = field(default_factory=dict)
    argument: dict[int, int] = field(default_factory=dict)

    def include(self, values: FragmentValues, groups: Iterable[int]) -> None:
        """Count the elements of some groups of columns that are inside of C."""
        t = self.text
        for number, node in enumerate(values.value):
            if not isinstance(node, LargestNode):
                continue
            self.argument[number] = node.argument
            for group in groups:
                for line in range(len(LINES)):
                    for lane in range(2):
                        size = t.value(f"math.absf {values.element(line, group, lane, number)} : f32")
                        inside = values.column_inside(group, lane)
                        if inside is not None:
                            size = t.value(f"arith.select {inside}, {size}, {self._zero()} : f32")
                        self._count((number, values.row_inside(line)), size)

    def _count(self, key: tuple[int, str | None], size: str) -> None:
        known = self.found.get(key)
        self.found[key] = size if known is None else self.text.op("maximumf", known, size, type_="f32")

    def _zero(self) -> str:
        return self.text.value("arith.constant 0.0 : f32")

    def update(self) -> None:
        """Update the arguments: one lane of each warp."""
        t = self.text
        for number, argument in self.argument.items():
            largest = None
            for (of, inside), size in self.found.items():
                if of != number:
                    continue
                if inside is not None:
                    size = t.value(f"arith.select {inside}, {size}, {self._zero()} : f32")
                largest = size if largest is None else t.op("maximumf", largest, size, type_="f32")
            bits = t.value(f"arith.bitcast {largest} : f32 to i32")
            total = t.value(f"nvvm.redux.sync max {bits}, {t.i32(-1)} : i32 -> i32")
            lane = t.op("andi", self.thread, t.i32(WARP - 1))
            with t.block(f"scf.if {t.value(f'arith.cmpi eq, {lane}, {t.i32(0)} : i32')} {{"):
                name = operand_name(argument)
                place = t.value(f"memref.extract_aligned_pointer_as_index {name} : memref<1xf32> -> index")
                address = t.value(f"arith.index_cast {place} : index to i64")
                pointer = t.value(f"llvm.inttoptr {address} : i64 to !llvm.ptr<1>")
                t.value(f'llvm.atomicrmw max {pointer}, {total} syncscope("device") monotonic '
                        "{alignment = 4 : i64} : !llvm.ptr<1>, i32")  # fmt: skip
