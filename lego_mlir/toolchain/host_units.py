"""Units besides threads, on a CPU: products of a warp's fragments, and asynchronous copies.

`mma.sync` reads the fragments of all lanes of the warp. Every thread stores its own in arrays; after a barrier it adds
up its four results, of two rows and two columns, over the lanes that hold them (PTX ISA, "Matrix Fragments for mma").
Sums are of f64 and rounded once.

A copy is done where it is issued, the earliest moment that its wait allows. Groups of copies and their waits go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Op, Type, Value
from lego_mlir.toolchain.host_warps import WarpThread, declared, index, make
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.operations import bits, create

PRODUCT: Final = "nvgpu.mma.sync"
COPY: Final = "nvgpu.device_async_copy"
GROUPS: Final = (  # in an order in which none is used after it is gone
    "nvgpu.device_async_wait",
    "nvgpu.device_async_create_group",
    "nvvm.cp.async.wait.group",
    "nvvm.cp.async.commit.group",
)
_QUAD = 4  # lanes that share a row of A, or a column of B
_TF32: Final = -(1 << 13)  # the bits of an f32 that the unit reads


def expand(function: Op, block: tuple[int, ...]) -> None:
    """Replace products and copies of a kernel of this block."""
    published: dict[tuple[Block, Value], Value] = {}
    for operation in [op for op in walk(function) if op.name == PRODUCT]:
        with operation.location, bindings.load().ir.InsertionPoint(operation):
            found = _Product(function, operation, WarpThread(block), published).emit()
        operation.results[0].replace_all_uses_with(found)
        operation.erase()
    for name in GROUPS:
        for operation in [op for op in walk(function) if op.name == name]:
            operation.erase()
    for operation in [op for op in walk(function) if op.name == COPY]:
        with operation.location, bindings.load().ir.InsertionPoint(operation):
            _copy(operation)
        operation.erase()


class _Product:
    """One `mma.sync` at the insertion point."""

    def __init__(
        self, function: Op, operation: Op, thread: WarpThread, published: dict[tuple[Block, Value], Value]
    ) -> None:
        self.function, self.operation, self.thread, self.published = function, operation, thread, published
        self.is_integer = str(operation.results[0].type.element_type).startswith("i")

    def emit(self) -> Value:
        """The thread's piece of the sums."""
        a, b, c = self.operation.operands
        number = self.thread.number()
        arrays = self._arrays((a, b), number)
        first = self.thread.first(number)
        row, pair = (make(f"arith.{n}ui", make("arith.subi", number, first), index(_QUAD)) for n in ("div", "rem"))
        column = make("arith.muli", pair, index(2))
        pieces, columns = c.type.shape  # of 8 rows; 2 columns
        entries = [(piece, j) for piece in range(pieces) for j in range(columns)]
        start = [self._widened(self._entry(c, *entry)) for entry in entries]
        loop = bindings.load().ir.Operation.create(
            "scf.for", [v.type for v in start], [index(0), index(_QUAD), index(1), *start], regions=1
        )
        types = [number.type, *(v.type for v in start)]
        body: Block = loop.regions[0].blocks.append(*types, arg_locs=[loop.location] * len(types))
        with bindings.load().ir.InsertionPoint(body):
            lane, *sums = body.arguments
            left = self._held(arrays[0], a.type, first, row, lane)
            right = [self._held(arrays[1], b.type, first, make("arith.addi", column, index(j)), lane) for j in (0, 1)]
            for k, (register, element) in enumerate(_entries(b.type)):
                factors = [self._operand(held, register, element) for held in right]
                for at, (piece, j) in enumerate(entries):
                    one = self._operand(left, pieces * (k // b.type.shape[1]) + piece, element)
                    sums[at] = self._plus(sums[at], one, factors[j])
            create("scf.yield", [], sums)
        narrowed = [self._narrowed(value, c.type.element_type) for value in loop.results]
        return create("vector.from_elements", [c.type], narrowed).results[0]

    def _arrays(self, fragments: tuple[Value, ...], number: Value) -> list[Value]:
        """The fragments of all threads, in arrays, after a barrier; each value of a block of operations once."""
        here, waits = self.operation.block, False
        for value in fragments:
            if (here, value) not in self.published:
                array = declared(self.function, self.thread.threads, value.type)
                create("memref.store", [], [value, array, number])
                self.published[here, value], waits = array, True
        if waits:
            create("gpu.barrier", [])
        return [self.published[here, value] for value in fragments]

    def _held(self, array: Value, type_: Type, first: Value, line: Value, lane: Value) -> Value:
        """The fragment of the lane of a quad that holds a row of A, or a column of B."""
        place = make("arith.addi", first, make("arith.addi", make("arith.muli", line, index(_QUAD)), lane))
        return create("memref.load", [type_], [array, place]).results[0]

    def _entry(self, fragment: Value, register: int, element: int) -> Value:
        position = bindings.load().ir.DenseI64ArrayAttr.get([register, element])
        return create(
            "vector.extract", [fragment.type.element_type], [fragment], {"static_position": position}
        ).results[0]

    def _operand(self, fragment: Value, register: int, element: int) -> Value:
        return self._widened(self._tf32(self._entry(fragment, register, element)))

    def _tf32(self, number: Value) -> Value:
        if str(number.type) != "f32":
            return number
        word = create("arith.bitcast", [bits(32)], [number]).results[0]
        mask = create("arith.constant", [bits(32)], [], {"value": f"{_TF32} : i32"}).results[0]
        return create("arith.bitcast", [number.type], [make("arith.andi", word, mask)]).results[0]

    def _widened(self, number: Value) -> Value:
        if self.is_integer:
            return create("arith.extsi", [bits(64)], [number]).results[0]
        f64 = bindings.load().ir.F64Type.get()
        return number if number.type == f64 else create("arith.extf", [f64], [number]).results[0]

    def _plus(self, total: Value, a: Value, b: Value) -> Value:
        kind = "i" if self.is_integer else "f"
        return make(f"arith.add{kind}", total, make(f"arith.mul{kind}", a, b))

    def _narrowed(self, total: Value, type_: Type) -> Value:
        """Rounded; integers saturate."""
        if total.type == type_:
            return total
        if not self.is_integer:
            return create("arith.truncf", [type_], [total]).results[0]
        for name, bound in (("arith.maxsi", -(1 << 31)), ("arith.minsi", (1 << 31) - 1)):
            limit = create("arith.constant", [bits(64)], [], {"value": f"{bound} : i64"}).results[0]
            total = make(name, total, limit)
        return create("arith.trunci", [type_], [total]).results[0]


def _entries(type_: Type) -> Iterator[tuple[int, int]]:
    """The registers of a fragment and their elements, in order."""
    registers, elements = type_.shape
    return ((r, e) for r in range(registers) for e in range(elements))


def _copy(operation: Op) -> None:
    """The elements one by one; beyond the count that is read, zeros."""
    ir = bindings.load().ir
    target, to, source, here, limit = _segments(operation)
    element = target[0].type.element_type
    width = int(ir.IntegerAttr(operation.attributes["dstElements"]).value)
    for k in range(width):
        there = make("arith.addi", here[-1], index(k))
        if limit:
            inside = create("arith.cmpi", [bits(1)], [index(k), limit[0]], {"predicate": "6 : i64"}).results[0]
            found = ir.Operation.create("scf.if", [element], [inside], regions=2)
            for region, is_read in zip(found.regions, (True, False), strict=True):
                with ir.InsertionPoint(region.blocks.append()):
                    read = (
                        create("memref.load", [element], [source[0], *here[:-1], there])
                        if is_read
                        else create("arith.constant", [element], [], {"value": _zero(element)})
                    )
                    create("scf.yield", [], [read.results[0]])
            value = found.results[0]
        else:
            value = create("memref.load", [element], [source[0], *here[:-1], there]).results[0]
        create("memref.store", [], [value, target[0], *to[:-1], make("arith.addi", to[-1], index(k))])


def _zero(element: Type) -> str:
    return f"0 : {element}" if str(element).startswith("i") else f"0.0 : {element}"


def _segments(operation: Op) -> Iterator[list[Value]]:
    """The operands by their meaning: target, its indices, source, its indices, the count that is read."""
    sizes = bindings.load().ir.DenseI32ArrayAttr(operation.attributes["operandSegmentSizes"])
    rest = list(operation.operands)
    for size in sizes:
        yield rest[:size]
        rest = rest[size:]
