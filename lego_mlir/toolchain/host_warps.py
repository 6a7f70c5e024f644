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
from typing import Final, NoReturn

from lego_mlir import bindings
from lego_mlir.aliases import Block, Op, Type, Value
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.modules import ModuleError, walk
from lego_mlir.transforms.passes.allocate_shared import declare
from lego_mlir.transforms.passes.operations import bits, create

WARP_BARRIER: Final = "nvvm.bar.warp.sync"
MATRICES: Final = "nvgpu.ldmatrix"
ACTIVE: Final = "llvm.call_intrinsic"
_OFFSETS: Final = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi", "idx": "arith.addi"}
_JOINED: Final = {"any": "arith.ori", "all": "arith.andi", "ballot": "arith.ori"}
_AXES: Final = "xyz"


def expand(function: Op, block: tuple[int, ...]) -> None:
    """Replace the exchanges of a kernel of this block."""
    names: dict[str, Callable[[Op, Op, WarpThread], tuple[Value, ...]]] = {
        "gpu.shuffle": _shuffle,
        "nvvm.shfl.sync": _refused,
        "nvvm.vote.sync": _vote,
        "nvvm.match.sync": _match,
        ACTIVE: _own_lane,
        WARP_BARRIER: _barrier,
        MATRICES: _matrices,
    }
    for operation in [op for op in walk(function) if op.name in names]:
        with operation.location, bindings.load().ir.InsertionPoint(operation):
            found = names[operation.name](function, operation, WarpThread(block))
        for old, new in zip(operation.results, found, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()


class WarpThread:
    """The number of the thread in its block, made at the insertion point; `threads` of them."""

    def __init__(self, block: tuple[int, ...]) -> None:
        self.block, self.threads = block, reduce(lambda a, b: a * b, block)

    def number(self) -> Value:
        """The linear number, x fastest."""
        number = index(0)
        for axis, extent in reversed(list(zip(_AXES, self.block, strict=False))):
            own = create("gpu.thread_id", [number.type], [], {"dimension": f"#gpu<dim {axis}>"}).results[0]
            number = make("arith.addi", make("arith.muli", number, index(extent)), own)
        return number

    def first(self, number: Value) -> Value:
        """The number of the first thread of the warp."""
        return make("arith.subi", number, make("arith.remui", number, index(WARP)))


def _shuffle(function: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    value, offset, width = operation.operands
    mode = str(operation.attributes["mode"]).removeprefix("#gpu<shuffle_mode ").removesuffix(">")
    number = thread.number()
    values = _published(function, value, number, thread.threads)
    distance, span = (create("arith.index_cast", [number.type], [word]).results[0] for word in (offset, width))
    lane, last_inside = make("arith.remui", number, index(WARP)), make("arith.subi", span, index(1))
    inner = make("arith.andi", lane, last_inside)
    first = make("arith.subi", lane, inner)  # of the group
    end = make("arith.addi", first, span)
    distance = make("arith.andi", distance, last_inside if mode == "idx" else index(WARP - 1))
    target = make(_OFFSETS[mode], first if mode == "idx" else lane, distance)
    inside = _below(distance, make("arith.addi", inner, index(1))) if mode == "up" else _below(target, end)
    source = make("arith.addi", make("arith.subi", number, lane), target)
    there = make("arith.andi", inside, _below(source, index(thread.threads)))
    chosen = create("arith.select", [number.type], [there, source, number]).results[0]
    return create("memref.load", [value.type], [values, chosen]).results[0], inside


def _vote(function: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    """The conditions of the threads of a warp, combined one by one."""
    _require_all(operation)
    kind = str(operation.attributes["kind"]).removeprefix("#nvvm<vote_sync_kind ").removesuffix(">")
    type_, number = operation.results[0].type, thread.number()
    holds = create("arith.extui", [bits(8)], [operation.operands[1]]).results[0]
    values = _published(function, holds, number, thread.threads)

    def vote_of(lane: Value, place: Value) -> Value:
        vote = create("memref.load", [bits(8)], [values, lane]).results[0]
        if kind != "ballot":
            return create("arith.trunci", [type_], [vote]).results[0]
        return make("arith.shli", create("arith.extui", [type_], [vote]).results[0], place)

    return (_over_lanes(thread, number, type_, _JOINED[kind], "true" if kind == "all" else f"0 : {type_}", vote_of),)


def _match(function: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    """The lanes of a warp whose value is this thread's, compared one by one."""
    _require_all(operation)
    own, type_, number = operation.operands[1], operation.results[0].type, thread.number()
    values = _published(function, own, number, thread.threads)

    def same(lane: Value, place: Value) -> Value:
        other = create("memref.load", [own.type], [values, lane]).results[0]
        equal = create("arith.cmpi", [bits(1)], [own, other], {"predicate": "0 : i64"}).results[0]
        return make("arith.shli", create("arith.extui", [type_], [equal]).results[0], place)

    return (_over_lanes(thread, number, type_, "arith.ori", f"0 : {type_}", same),)


def _own_lane(_: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    """The lanes that run together with this thread, which runs alone."""
    type_ = operation.results[0].type
    lane = make("arith.remui", thread.number(), index(WARP))
    one = create("arith.constant", [type_], [], {"value": f"1 : {type_}"}).results[0]
    return (make("arith.shli", one, create("arith.index_cast", [type_], [lane]).results[0]),)


def _require_all(operation: Op) -> None:
    """Raise ModuleError for an exchange among some lanes, which a CPU does not run together."""
    made = operation.operands[0].owner
    if "value" not in made.attributes or bindings.load().ir.IntegerAttr(made.attributes["value"]).value != -1:
        _refused(None, operation)


def _refused(_: Op | None, operation: Op, thread: WarpThread | None = None) -> NoReturn:
    raise ModuleError(f"{operation.name} among the members of a warp has no form on a CPU")


def _over_lanes(
    thread: WarpThread, number: Value, type_: Type, joined: str, initial: str, of: Callable[[Value, Value], Value]
) -> Value:
    """`of` a thread and its place in the warp, as an i32, joined for the threads of this thread's warp."""
    first = thread.first(number)
    end = make("arith.minui", make("arith.addi", first, index(WARP)), index(thread.threads))
    start = create("arith.constant", [type_], [], {"value": initial}).results[0]
    loop = bindings.load().ir.Operation.create("scf.for", [type_], [first, end, index(1), start], regions=1)
    body: Block = loop.regions[0].blocks.append(number.type, type_, arg_locs=[loop.location] * 2)
    lane, found = body.arguments
    with bindings.load().ir.InsertionPoint(body):
        place = create("arith.index_cast", [bits(32)], [make("arith.subi", lane, first)]).results[0]
        create("scf.yield", [], [make(joined, found, of(lane, place))])
    return loop.results[0]


def _matrices(function: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    """Each element from the row that a lane addresses: plain, lane t has neighbours of row t / 4 of each matrix;
    transposed, its column t / 4 of the rows 2 (t mod 4) and the next."""
    tile, *at = operation.operands
    result = operation.results[0].type
    count, held = result.shape
    number = thread.number()
    rows, first = [_published(function, i, number, thread.threads) for i in at], thread.first(number)
    lane = make("arith.subi", number, first)
    quarter, rest = make("arith.divui", lane, index(4)), make("arith.remui", lane, index(4))
    transposed = str(operation.attributes["transpose"]) == "true"
    elements = []
    for matrix in range(count):
        for k in range(held):
            inside = make("arith.addi", make("arith.muli", rest, index(held)), index(k))
            row, column = (inside, quarter) if transposed else (quarter, inside)
            source = make("arith.addi", first, make("arith.addi", row, index(8 * matrix)))
            *outer, start = (create("memref.load", [number.type], [place, source]).results[0] for place in rows)
            inner = make("arith.addi", start, column)
            elements.append(create("memref.load", [result.element_type], [tile, *outer, inner]).results[0])
    return (create("vector.from_elements", [result], elements).results[0],)


def _barrier(function: Op, operation: Op, thread: WarpThread) -> tuple[Value, ...]:
    create("gpu.barrier", [])
    return ()


def _published(function: Op, value: Value, number: Value, threads: int) -> Value:
    """The values of all threads of the block, in an array, after a barrier."""
    values = declared(function, threads, value.type)
    create("memref.store", [], [value, values, number])
    create("gpu.barrier", [])
    return values


def declared(function: Op, threads: int, type_: Type) -> Value:
    """An array with a value of this type for each thread of the block."""
    kind = f"memref<{threads}x{type_}, #gpu.address_space<workgroup>>"
    return declare(function, bindings.load().ir.Type.parse(kind))


def make(name: str, *operands: Value) -> Value:
    """The result of an operation whose type is that of its operands."""
    return create(name, [operands[0].type], operands).results[0]


def _below(a: Value, b: Value) -> Value:
    return create("arith.cmpi", [bits(1)], [a, b], {"predicate": "6 : i64"}).results[0]  # ult


def index(number: int) -> Value:
    """A constant of type index."""
    ir = bindings.load().ir
    return create("arith.constant", [ir.IndexType.get()], [], {"value": f"{number} : index"}).results[0]
