"""Shuffles, votes, matches and `ldmatrix` on a CPU, through arrays of the values of all threads.

Every thread stores its value in an array, and after a barrier reads those of its warp:

    %r, %ok = gpu.shuffle xor %v, %d, %w      -->      store %v, %values[%t]
                                                       gpu.barrier
                                                       %r = load %values[select %ok, %base + (%lane ^ %d), %t]

`ldmatrix` does the same with the address of each lane's row (PTX ISA, "ldmatrix").

`host_loops` turns the barrier into the end of a loop over threads. So, unlike on a GPU, a warp that takes a branch
alone cannot exchange values there: the branch has to be one that all threads of the block take alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Op, Type, Value
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.allocate_shared import declare
from lego_mlir.transforms.passes.operations import create

WARP_BARRIER: Final = "nvvm.bar.warp.sync"
MATRICES: Final = "nvgpu.ldmatrix"
_OFFSETS: Final = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi", "idx": "arith.addi"}
_JOINED: Final = {"any": "arith.ori", "all": "arith.andi", "ballot": "arith.ori"}
_AXES: Final = "xyz"


def expand(function: Op, block: tuple[int, ...]) -> None:
    """Replace the exchanges of a kernel of this block."""
    names = {
        "gpu.shuffle": _shuffle,
        "nvvm.vote.sync": _vote,
        "nvvm.match.sync": _match,
        WARP_BARRIER: _barrier,
        MATRICES: _matrices,
    }
    for operation in [op for op in walk(function) if op.name in names and _is_known(op)]:
        with operation.location, bindings.load().ir.InsertionPoint(operation):
            found = names[operation.name](function, operation, _Thread(block))
        for old, new in zip(operation.results, found, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()


def _is_known(operation: Op) -> bool:
    """Whether there is an expansion: not for `ldmatrix` from a tile of two dimensions."""
    return operation.name != MATRICES or len(operation.operands) == 2


class _Thread:
    """The number of the thread in its block, made at the insertion point; `threads` of them."""

    def __init__(self, block: tuple[int, ...]) -> None:
        self.block, self.threads = block, reduce(lambda a, b: a * b, block)

    def number(self) -> Value:
        """The linear number, x fastest."""
        number = _index(0)
        for axis, extent in reversed(list(zip(_AXES, self.block, strict=False))):
            own = create("gpu.thread_id", [number.type], [], {"dimension": f"#gpu<dim {axis}>"}).results[0]
            number = _make("arith.addi", _make("arith.muli", number, _index(extent)), own)
        return number

    def first(self, number: Value) -> Value:
        """The number of the first thread of the warp."""
        return _make("arith.subi", number, _make("arith.remui", number, _index(WARP)))


def _shuffle(function: Op, operation: Op, thread: _Thread) -> tuple[Value, ...]:
    value, offset, width = operation.operands
    mode = str(operation.attributes["mode"]).removeprefix("#gpu<shuffle_mode ").removesuffix(">")
    number = thread.number()
    values = _published(function, value, number, thread.threads)
    distance, span = (create("arith.index_cast", [number.type], [word]).results[0] for word in (offset, width))
    lane, last_inside = _make("arith.remui", number, _index(WARP)), _make("arith.subi", span, _index(1))
    inner = _make("arith.andi", lane, last_inside)
    first = _make("arith.subi", lane, inner)  # of the group
    end = _make("arith.addi", first, span)
    distance = _make("arith.andi", distance, last_inside if mode == "idx" else _index(WARP - 1))
    target = _make(_OFFSETS[mode], first if mode == "idx" else lane, distance)
    inside = _below(distance, _make("arith.addi", inner, _index(1))) if mode == "up" else _below(target, end)
    source = _make("arith.addi", _make("arith.subi", number, lane), target)
    there = _make("arith.andi", inside, _below(source, _index(thread.threads)))
    chosen = create("arith.select", [number.type], [there, source, number]).results[0]
    return create("memref.load", [value.type], [values, chosen]).results[0], inside


def _vote(function: Op, operation: Op, thread: _Thread) -> tuple[Value, ...]:
    """The conditions of the threads of a warp, combined one by one."""
    kind = str(operation.attributes["kind"]).removeprefix("#nvvm<vote_sync_kind ").removesuffix(">")
    type_, number = operation.results[0].type, thread.number()
    holds = create("arith.extui", [_bits(8)], [operation.operands[1]]).results[0]
    values = _published(function, holds, number, thread.threads)

    def vote_of(lane: Value, place: Value) -> Value:
        vote = create("memref.load", [_bits(8)], [values, lane]).results[0]
        if kind != "ballot":
            return create("arith.trunci", [type_], [vote]).results[0]
        return _make("arith.shli", create("arith.extui", [type_], [vote]).results[0], place)

    return (_over_lanes(thread, number, type_, _JOINED[kind], "true" if kind == "all" else f"0 : {type_}", vote_of),)


def _match(function: Op, operation: Op, thread: _Thread) -> tuple[Value, ...]:
    """The lanes of a warp whose value is this thread's, compared one by one."""
    own, type_, number = operation.operands[1], operation.results[0].type, thread.number()
    values = _published(function, own, number, thread.threads)

    def same(lane: Value, place: Value) -> Value:
        other = create("memref.load", [own.type], [values, lane]).results[0]
        equal = create("arith.cmpi", [_bits(1)], [own, other], {"predicate": "0 : i64"}).results[0]
        return _make("arith.shli", create("arith.extui", [type_], [equal]).results[0], place)

    return (_over_lanes(thread, number, type_, "arith.ori", f"0 : {type_}", same),)


def _over_lanes(
    thread: _Thread, number: Value, type_: Type, joined: str, initial: str, of: Callable[[Value, Value], Value]
) -> Value:
    """`of` a thread and its place in the warp, as an i32, joined for the threads of this thread's warp."""
    first = thread.first(number)
    end = _make("arith.minui", _make("arith.addi", first, _index(WARP)), _index(thread.threads))
    start = create("arith.constant", [type_], [], {"value": initial}).results[0]
    loop = bindings.load().ir.Operation.create("scf.for", [type_], [first, end, _index(1), start], regions=1)
    body: Block = loop.regions[0].blocks.append(number.type, type_, arg_locs=[loop.location] * 2)
    lane, found = body.arguments
    with bindings.load().ir.InsertionPoint(body):
        place = create("arith.index_cast", [_bits(32)], [_make("arith.subi", lane, first)]).results[0]
        create("scf.yield", [], [_make(joined, found, of(lane, place))])
    return loop.results[0]


def _matrices(function: Op, operation: Op, thread: _Thread) -> tuple[Value, ...]:
    """Each element from the row that a lane addresses: plain, lane t has neighbours of row t / 4 of each matrix;
    transposed, its column t / 4 of the rows 2 (t mod 4) and the next."""
    tile, at = operation.operands
    result = operation.results[0].type
    count, held = result.shape
    number = thread.number()
    rows, first = _published(function, at, number, thread.threads), thread.first(number)
    lane = _make("arith.subi", number, first)
    quarter, rest = _make("arith.divui", lane, _index(4)), _make("arith.remui", lane, _index(4))
    transposed = str(operation.attributes["transpose"]) == "true"
    elements = []
    for matrix in range(count):
        for k in range(held):
            inside = _make("arith.addi", _make("arith.muli", rest, _index(held)), _index(k))
            row, column = (inside, quarter) if transposed else (quarter, inside)
            source = _make("arith.addi", first, _make("arith.addi", row, _index(8 * matrix)))
            start = create("memref.load", [number.type], [rows, source]).results[0]
            place = _make("arith.addi", start, column)
            elements.append(create("memref.load", [result.element_type], [tile, place]).results[0])
    return (create("vector.from_elements", [result], elements).results[0],)


def _barrier(function: Op, operation: Op, thread: _Thread) -> tuple[Value, ...]:
    create("gpu.barrier", [])
    return ()


def _published(function: Op, value: Value, number: Value, threads: int) -> Value:
    """The values of all threads of the block, in an array, after a barrier."""
    kind = f"memref<{threads}x{value.type}, #gpu.address_space<workgroup>>"
    values = declare(function, bindings.load().ir.Type.parse(kind))
    create("memref.store", [], [value, values, number])
    create("gpu.barrier", [])
    return values


def _make(name: str, *operands: Value) -> Value:
    return create(name, [operands[0].type], operands).results[0]


def _below(a: Value, b: Value) -> Value:
    return create("arith.cmpi", [_bits(1)], [a, b], {"predicate": "6 : i64"}).results[0]  # ult


def _index(number: int) -> Value:
    ir = bindings.load().ir
    return create("arith.constant", [ir.IndexType.get()], [], {"value": f"{number} : index"}).results[0]


def _bits(width: int) -> Type:
    return bindings.load().ir.IntegerType.get_signless(width)
