"""The statements that the copies of a pipelined kernel need, and those that its products need: two backward slices.

A statement with an effect is on one side: tile copies, waits for empty stages and arrivals at full ones belong to the
copies, everything else to the products. A statement without an effect is on each side that uses what it defines. A
barrier of the cluster is on no side: all threads meet there, between two phases of the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import sympy

from lego_mlir.aliases import Symbol
from lego_mlir.tracing.schedules.scheduled import refused, stored_by, words_in, written_in
from lego_mlir.tracing.schedules.whole_fills import are_apart
from lego_mlir.tracing.trace.marks import (
    COPIES,
    PRODUCTS,
    Meeting,
    OnSide,
    RingCopy,
    RingPass,
    ThreadCopies,
    TileProduct,
)
from lego_mlir.tracing.trace.symbols import expressions
from lego_mlir.tracing.trace.trace import (
    Assume,
    AsyncCopy,
    Atomic,
    Barrier,
    For,
    FunctionCall,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    MlirOperation,
    Read,
    Register,
    Statement,
    Store,
    TensorAccess,
    TileLoad,
    TileStore,
    ToIndex,
    Value,
    While,
    Write,
    accesses_in,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.words.clustered_blocks import ARRIVE, WAIT

FILLED = ("arrive", COPIES)
COPIED = (4, 8, 16)  # bytes of a copy of a thread
_EFFECTS = ("nvvm", "nvgpu", "gpu.")  # dialects whose operations are kept on the products' side, with results or not


def side_of(statement: Statement) -> str | None:
    """The side of a statement's effect; None for one without."""
    match statement:
        case If(mark=RingPass(side=side)):
            return side
        case If(mark=RingCopy() | ThreadCopies() | OnSide() | Meeting()):
            return COPIES
        case If(mark=TileProduct()):
            return PRODUCTS
        case If(mark=mark) if mark is not None:
            return PRODUCTS if any(side_of(s) == PRODUCTS for s in statements_in(statement.then)) else None
        case Store() | Atomic() | TileStore() | AsyncCopy() | Barrier():
            return PRODUCTS
        case FunctionCall(function=function) if any(side_of(s) is not None for s in statements_in(function.body)):
            return PRODUCTS
        case MlirOperation(results=results) if not results or statement.name.startswith(_EFFECTS):
            return PRODUCTS
    return None


def phases_of(
    trace: KernelTrace, body: tuple[Statement, ...]
) -> Iterator[tuple[tuple[Statement, ...], tuple[Statement, ...]]]:
    """The statements up to each barrier of the cluster, and those of the barrier; the last phase has none.

    Raises ScheduleError for a barrier in a loop or branch, and for a value that a later phase takes from an earlier
    one: a role is the program of one phase.
    """
    defined: dict[object, Statement] = {}
    phase: list[Statement] = []
    meeting: list[Statement] = []
    for s in (*body, None):
        if s is not None and meets(s):
            meeting.append(s)
            continue
        if meeting or s is None:
            _require_own(trace, phase, defined)
            yield tuple(phase), tuple(meeting)
            defined.update((name, one) for one in statements_in(tuple(phase)) for name in _defined(one))
            phase, meeting = [], []
        if s is not None:
            phase.append(s)


def meets(statement: Statement) -> bool:
    """Whether all threads of a cluster meet in a statement."""
    return isinstance(statement, MlirOperation) and statement.name in (ARRIVE, WAIT)


def _require_own(trace: KernelTrace, phase: list[Statement], defined: dict[object, Statement]) -> None:
    for s in statements_in(tuple(phase)):
        if meets(s):
            raise refused(
                s.source or trace.source,
                "lego.cluster_barrier in a loop or a branch: the warps that copy meet there too, between the phases of "
                "the kernel; move it to the kernel's top level",
            )
        if earlier := next((defined[name] for name in _taken(s) if name in defined), None):
            raise refused(
                getattr(s, "source", None) or trace.source,
                f"a value of before lego.cluster_barrier ({getattr(earlier, 'source', None)}) is used after it, and "
                "roles makes a program of each phase; compute it again after the barrier, or keep it in a shared tile",
            )


def copies_of(trace: KernelTrace) -> dict[int, tuple[Load, Store]]:
    """The stores into stages of what threads have loaded as it is, with the loads, by the ids of the stores.

    A copy of 4, 8 or 16 bytes can take the place of both (PTX ISA, "cp.async"), and is made where the stage is full: so
    a store in a branch or a loop of its own is none of them.
    """
    uses = Counter(v.number for s in trace.statements() for v in operands_of(s))
    loads = {s.result.number: s for s in trace.statements() if isinstance(s, Load)}
    written = written_in(trace)
    found: dict[int, tuple[Load, Store]] = {}
    for body in (s.body for s in trace.statements() if isinstance(s, For | While) and any(map(_fills, s.body))):
        words = [s for w in body if isinstance(w, If) and w.mark == OnSide(COPIES) for s in w.then]
        stores = [s for s in words if isinstance(s, Store)]
        for name in dict.fromkeys(s.access.buffer.name for s in stores):
            own = [s for s in stores if s.access.buffer.name == name]
            if _are_all(body, own) and are_apart(trace, [s.access for s in own]):
                pairs = ((s, loads.get(s.value.number)) for s in own)
                found |= {
                    id(s): (load, s)
                    for s, load in pairs
                    if load is not None and uses[load.result.number] == 1 and _is_copied(load.access, s.access, written)
                }
    return found


def _are_all(body: tuple[Statement, ...], stores: list[Store]) -> bool:
    """Whether these are all stores of a body to their tile: a copy ends later than a store that follows it."""
    name, known = stores[0].access.buffer.name, {id(s) for s in stores}
    return all(
        id(s) in known or not isinstance(s, Store | Atomic | FunctionCall) or name not in stored_by(s)
        for s in statements_in(body)
    )


def _is_copied(source: TensorAccess, target: TensorAccess, written: Mapping[str, Statement]) -> bool:
    """Whether a copy of a thread can take the place of a load and a store."""
    nbytes = source.width * source.buffer.dtype.bytes
    alike = source.buffer.dtype == target.buffer.dtype and source.width == target.width and nbytes in COPIED
    plain = not source.is_masked and not target.is_masked and source.buffer.space == "global"
    return alike and plain and source.buffer.name not in written


def _fills(statement: Statement) -> bool:
    """Whether copies arrive at a full stage."""
    return isinstance(statement, If) and isinstance(m := statement.mark, RingPass) and (m.kind, m.side) == FILLED


def differing(body: tuple[Statement, ...], threads: set[Symbol]) -> set[int]:
    """The ids of the statements that depend on the ids `threads`: what other statements do is the same for all.

    All writes of a register are among them if one is.
    """
    found: set[int] = set()
    names: set[object] = set(threads)

    def visit(statements: tuple[Statement, ...], differs: bool) -> None:
        for s in statements:
            here = differs or not names.isdisjoint(_taken(s)) or (isinstance(s, Write) and s.register in names)
            if here:
                found.add(id(s))
                names.update((s.symbol,) if isinstance(s, For) else _defined(s))
            if isinstance(s, If):
                visit(s.then, here)
                visit(s.otherwise, here)
            elif isinstance(s, For | While):
                visit(s.body, here)

    size = -1
    while size != (size := len(found) + len(names)):
        visit(body, False)
    return found


def _taken(s: Statement) -> Iterator[object]:
    """The numbers of values, registers and symbols that a statement uses; of a branch or loop, those of its head."""
    yield from (v.number for v in operands_of(s))
    if isinstance(s, Read):
        yield s.register
    if isinstance(s, While):
        yield s.condition
    if not isinstance(s, If) or s.mark is None:
        s = _shallow(s)
        yield from (x for e in expressions((s,)) for x in sympy.sympify(e).free_symbols)


def _defined(s: Statement) -> Iterator[object]:
    """The numbers of values, registers and symbols that a statement defines."""
    results = s.results if isinstance(s, MlirOperation | FunctionCall) else (getattr(s, "result", None),)
    yield from (v.number if isinstance(v, Value) else v for v in results if v is not None)
    if isinstance(s, Write):
        yield s.register
    if isinstance(s, ToIndex):
        yield s.symbol


def slice_of(body: tuple[Statement, ...], side: str) -> set[int]:
    """The ids of the statements that a side executes."""
    return _Slice(side).of(body)


def require_copies(trace: KernelTrace, body: tuple[Statement, ...], kept: set[int]) -> None:
    """Raise ScheduleError for a statement in the copies' slice whose result is the products'."""
    written = written_in(trace)
    words = {
        id(inner)
        for s in statements_in(body)
        if isinstance(s, If) and s.mark is not None and side_of(s) == COPIES
        for inner in statements_in(s.then)
    }
    computed = kept - words
    copied = filled_rings(body)
    for s in statements_in(body):
        if id(s) not in computed or isinstance(s, If | For | While):
            continue
        loaded = {a.buffer.name for a in _loads_of(s)}
        for name in sorted(loaded & written.keys()):
            raise refused(
                s.source,
                f"the copies need this element of {name}, which the kernel writes ({written[name].source}): they run "
                "ahead of it; read it from a tensor that is not written",
            )
        if side_of(s) == PRODUCTS:
            raise refused(
                s.source,
                f"the copies need the result of this {type(s).__name__}, which the warps of the products compute; "
                "compute it from what the kernel loads",
            )
        if isinstance(s, TileLoad) or loaded & copied:
            raise refused(s.source, "the copies need an element of a tile that they fill; read it from the tensor")


def filled_rings(body: Iterable[Statement]) -> set[str]:
    """The names of the tiles whose stages the copies fill: copies of whole tiles, and copies and stores of threads."""
    body = tuple(body)
    whole = {mark.tile.buffer.name for _, mark in words_in(body, RingCopy)}
    own = [s for kind in (OnSide, ThreadCopies) for word, _ in words_in(body, kind) for s in word.then]
    copied = {s.target.buffer.name for s in own if isinstance(s, AsyncCopy)}
    return whole | copied | {name for s in own for name in stored_by(s)}


def _loads_of(s: Statement) -> Iterator[TensorAccess]:
    """What a statement loads, itself or in a function that it calls."""
    if isinstance(s, FunctionCall):
        yield from accesses_in(s.function)
    elif isinstance(s, Load | MatrixLoad):
        yield s.access


class _Slice:
    def __init__(self, side: str) -> None:
        self.side = side
        self.kept: set[int] = set()
        self.values: set[int] = set()
        self.registers: set[Register] = set()
        self.symbols: set[Symbol] = set()

    def of(self, body: tuple[Statement, ...]) -> set[int]:
        """Visit the body backwards until nothing more is needed: a loop's step may need what a later one defines."""
        size = -1
        while size != (size := len(self.kept) + len(self.values) + len(self.registers) + len(self.symbols)):
            self._visit(body)
        return self.kept

    def _visit(self, statements: tuple[Statement, ...]) -> bool:
        found = False
        for s in reversed(statements):
            if isinstance(s, If) and s.mark is None:
                wanted = any([self._visit(s.then), self._visit(s.otherwise)])
            elif isinstance(s, For | While):
                wanted = self._visit(s.body)
            else:
                side = side_of(s)
                may_define = side is None or not isinstance(s, If)  # the other side's word is not taken over
                wanted = side == self.side or (may_define and self._defines(s))
            if wanted:
                self._need(s)
                found = True
        return found

    def _need(self, statement: Statement) -> None:
        if id(statement) in self.kept:
            return
        self.kept.add(id(statement))
        for s in self._executed(statement):
            self.values.update(v.number for v in operands_of(s))
            if isinstance(s, Read):
                self.registers.add(s.register)
            if isinstance(s, ToIndex):
                self.values.add(s.operand.number)
        self.symbols.update(s for e in expressions((_shallow(statement),)) for s in sympy.sympify(e).free_symbols)
        if isinstance(statement, If) and isinstance(statement.mark, RingPass | RingCopy):
            self.symbols.update(sympy.sympify(statement.mark.use).free_symbols)
        if isinstance(statement, While):
            self.registers.add(statement.condition)

    def _executed(self, statement: Statement) -> Iterator[Statement]:
        """A statement, with those of a word; those of a branch or loop are judged for themselves."""
        if isinstance(statement, If) and statement.mark is not None:
            for s in statements_in((statement,)):
                self.kept.add(id(s))
                yield s
        else:
            yield statement

    def _defines(self, statement: Statement) -> bool:
        return any(self._defines_one(s) for s in statements_in((statement,)))

    def _defines_one(self, s: Statement) -> bool:
        results = s.results if isinstance(s, MlirOperation | FunctionCall) else (getattr(s, "result", None),)
        if any(
            v.number in self.values if isinstance(v, Value) else v in self.symbols for v in results if v is not None
        ):
            return True
        match s:
            case Assume(condition=condition):
                return bool(sympy.sympify(condition).free_symbols & self.symbols)
            case Write(register=register):
                return register in self.registers
            case ToIndex(symbol=symbol):
                return symbol in self.symbols
        return False


def _shallow(statement: Statement) -> Statement:
    """A branch or loop without its body; a word with it."""
    if isinstance(statement, For | While):
        return replace(statement, body=())
    if isinstance(statement, If) and statement.mark is None:
        return replace(statement, then=(), otherwise=())
    return statement
