"""The accesses of a kernel, each as a map from (block, thread, round) to the logical index of an element.

Every layout is a bijection, so two accesses touch the same element exactly where their logical indices are equal; the
physical position, with its swizzles and curves, is not needed. An access through tiles or a transposed view is read
back to the index of the memory's own layout:

    y.tile_by([M // 32, N // 32], [32, 32])[by, bx, ty, tx]      (32*by + ty, 32*bx + tx)

A loop's variable is written as `lo + step * round`, where the round counts from 0. An access of several elements has a
further variable, the element. Unrolled copies of an access are one access again, with a variable for the copy.

The statements between two barriers form a `Stretch`; `Sync`, `Rounds` and `Fork` are what remains of the control flow.
Asynchronous copies are `Copies`, which a `Commit` and a `Wait` complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import FloorDiv, Le, Lt, Ne, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.hardware.limits import WARP
from lego_mlir.layout.base import Layout
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.transposed import Transposed
from lego_mlir.proofs.overlap import Loaded
from lego_mlir.proofs.unrolled import rerolled
from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.shared_lines import lines_of
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Buffer,
    Constant,
    For,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    MlirOperation,
    Statement,
    Store,
    TensorAccess,
    TileLoad,
    TileStore,
    Value,
    While,
    statements_in,
)

WARP_BARRIER: Final = "nvvm.bar.warp.sync"
CLUSTER_BARRIER: Final = "nvvm.cluster.wait"
COMMIT: Final = "nvvm.cp.async.commit.group"
WAIT: Final = "nvvm.cp.async.wait.group"
SHUFFLE: Final = "gpu.shuffle"
VOTE: Final = "nvvm.vote.sync"
MATCH: Final = "nvvm.match.sync"
PRODUCTS: Final = ("nvgpu.mma.sync", "nvgpu.mma.sp.sync")
OF_WARPS: Final = {SHUFFLE: "shuffle", VOTE: "vote", MATCH: "match", **dict.fromkeys(PRODUCTS, "matrix product")}
"""Operations that all lanes of a warp execute together; they order no accesses."""
_KINDS: Final = {Load: "read", Store: "write", Atomic: "atomic"}


@dataclass(frozen=True, slots=True, eq=False)
class Footprint:
    """One access. `index` is the index in the layout of the buffer, `position` the physical element, if it is known.

    `conditions` are the branches around it, its mask, and bounds of loops; `own` are its variables that each thread has
    for itself: rounds of loops without barriers, elements of a vector, copies. A warp executes a statement on tiles
    together (`by_warp`): each lane is taken to access all elements. `rounds` are those of the loops with barriers, and
    in a while it is `repeated`. `order` numbers the first and the last copy in the program, and `copies` are these.
    """

    buffer: Buffer
    kind: str
    index: tuple[Expr, ...]
    position: Expr | None
    conditions: tuple[Cond, ...]
    own: tuple[Symbol, ...]
    source: Source
    by_warp: bool = False
    rounds: tuple[Symbol, ...] = ()
    repeated: bool = False
    order: tuple[int, int] = (0, 0)
    copies: tuple[Footprint, ...] = ()

    @property
    def writes(self) -> bool:
        return self.kind != "read"

    def __str__(self) -> str:
        verb = {"read": "read", "write": "write", "atomic": "atomic update"}[self.kind]
        return f"{verb} of {self.buffer.name} in line {self.source.line}"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Accesses with no barrier between them, in program order."""

    accesses: tuple[Footprint, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of the block, of a warp, or of each group of a role, or another operation of a warp, named by `what`.

    `guards` decide who reaches it: a condition each, or the ends of a loop; the first is that of the role. It reads
    `lanes` of each group of `width` lanes, the last of which may be past the end of the block.
    """

    scope: str
    source: Source
    guards: tuple[tuple[Expr, ...], ...]
    what: str = "barrier"
    width: int = 1
    lanes: int = 1
    role: WarpRole | None = None

    @property
    def unit(self) -> int:
        """The number of adjacent threads that it separates from each other; 0 for all that reach it."""
        if self.role is not None:
            return 0 if self.role.groups == 1 else self.role.warps * WARP
        return WARP if self.scope == "warp" else 0


@dataclass(frozen=True, slots=True)
class Copies:
    """Asynchronous copies that a thread issues: writes of their tiles, not complete before a wait."""

    accesses: tuple[Footprint, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """The copies of a thread since its last commit are a group."""

    source: Source


@dataclass(frozen=True, slots=True)
class Wait:
    """All groups of a thread but its newest `pending` are complete."""

    pending: int
    source: Source


@dataclass(frozen=True, slots=True)
class Rounds:
    """A loop with a barrier or copies; `holds` in every round, `last` in the last one, unknown in a while.

    All threads run a loop with a barrier together. `count` is its number of rounds, negative or 0 if it has none.
    """

    round: Symbol | None
    body: tuple[Node, ...]
    runs: bool
    last: Cond
    source: Source
    holds: Cond = sympy.true
    count: Expr | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch with a barrier or copies: all threads take the same side of one with a barrier of the block.

    Adjacent ones that are a `role` run concurrently.
    """

    then: tuple[Node, ...]
    otherwise: tuple[Node, ...]
    source: Source
    condition: Cond = sympy.true
    role: bool = False


Node = Stretch | Sync | Copies | Commit | Wait | Rounds | Fork


@dataclass(slots=True)
class Reader:
    """Reads a trace. `ranges` gains the rounds, elements and copies that the footprints use.

    `distinct` has the values that are elements of tensors without repetition: the tensor, and the index in it.
    `exchanges` are shuffles, votes and other operations of warps.
    """

    trace: KernelTrace
    meaning: Mapping[Any, Any]
    ranges: dict[Any, Range]
    syncs: list[Sync] = field(default_factory=list)
    exchanges: list[Sync] = field(default_factory=list)
    distinct: dict[int, Loaded] = field(default_factory=dict)
    _constants: dict[int, int | float] = field(default_factory=dict)
    _counted: int = 0
    _accessed: int = 0

    def read(self) -> tuple[Node, ...]:
        """The kernel as a sequence of stretches, barriers, and the loops and branches that contain barriers."""
        for s in self.trace.statements():
            if isinstance(s, Constant):
                self._constants[s.result.number] = s.number
            elif isinstance(s, FromIndex) and as_expr(s.expr).is_Integer:
                self._constants[s.result.number] = int(s.expr)
        return self._body(self.trace.body, _Scope())

    # ---- statements

    def _body(self, body: tuple[Statement, ...], scope: _Scope) -> tuple[Node, ...]:
        nodes: list[Node] = []
        run: list[Footprint] = []
        copies: list[Footprint] = []

        def finish() -> None:
            for made, of in ((Stretch, run), (Copies, copies)):
                if of:
                    nodes.append(made(tuple(rerolled(of, self.ranges, self.fresh))))
                    of.clear()

        for statement in body:
            if not _has_sync(statement):
                if copies:
                    finish()
                run += self._accesses(statement, scope)
                continue
            if isinstance(statement, AsyncCopy):
                run.append(self._access("read", statement.origin, scope))
                copies.append(self._access("write", statement.target, scope))
                continue
            finish()
            nodes += self._synced(statement, scope)
        finish()
        return tuple(nodes)

    def _synced(self, statement: Statement, scope: _Scope) -> Iterator[Node]:
        """A barrier, or a statement that contains one."""
        match statement:
            case Barrier(source=source, role=role):
                yield self._sync("block" if role is None else "role", source, scope, role)
            case MlirOperation(name=name, source=source):
                if name == COMMIT:
                    yield Commit(source)
                elif name == WAIT:
                    yield Wait(int(dict(statement.attributes)["n"].split()[0]), source)
                else:
                    yield self._sync("block" if name == CLUSTER_BARRIER else "warp", source, scope)
            case For(body=body, source=source):
                inner, number, runs, last = self._loop(statement, scope)
                inner = replace(inner, own=scope.own, rounds=(*scope.rounds, number))
                lo, hi, step = (
                    scope.at(as_expr(end), self.meaning) for end in (statement.lo, statement.hi, statement.step)
                )
                count = FloorDiv(hi - lo + step - 1, step)
                holds = Lt(lo + step * number, hi)
                yield Rounds(number, self._body(body, inner), runs, last, source, holds, count)
            case While(body=body, source=source):
                yield Rounds(None, self._body(body, self._repeated(statement, scope)), False, sympy.true, source)
            case If(condition=condition, then=then, otherwise=otherwise, source=source):
                holds = scope.at(condition, self.meaning)
                guards = (*scope.guards, (scope.at(condition, {}),))
                sides = [
                    self._body(side, replace(scope, conditions=(*scope.conditions, given), guards=guards))
                    for side, given in ((then, holds), (otherwise, sympy.Not(holds)))
                ]
                yield Fork(sides[0], sides[1], source, holds, isinstance(statement.mark, WarpRole))
            case FunctionCall():
                yield from self._body(statement.function.body, self._called(statement, scope))

    def _sync(self, kind: str, source: Source, scope: _Scope, role: WarpRole | None = None) -> Sync:
        found = Sync(kind, source, scope.guards, role=role)
        self.syncs.append(found)
        return found

    def _exchange(self, what: str, source: Source, scope: _Scope, width: int, lanes: int) -> None:
        self.exchanges.append(Sync("warp", source, scope.guards, what, width, lanes))

    def _lanes_read(self, operation: MlirOperation) -> tuple[int, int]:
        """The size of the groups within which an operation reads lanes, and how many of each it may read."""
        if operation.name != SHUFFLE:
            return (1, 1) if operation.name in (VOTE, MATCH) else (WARP, WARP)
        _, offset, group = (self._constants.get(operand.number) for operand in operation.operands)
        width = WARP if group is None else int(group)
        match dict(operation.attributes)["mode"].split()[-1].removesuffix(">"), offset:
            case "up", _:
                return 1, 1
            case "xor", int(mask):
                span = min(1 << mask.bit_length(), width)
                return span, span
            case "idx", int(lane):
                return width, lane % width + 1
        return width, width

    def _repeated(self, loop: While, scope: _Scope) -> _Scope:
        """The scope of the body of a while, which may have no round."""
        register = sympy.Symbol(f"register {loop.condition.number}", integer=True)
        conditions, guards = (*scope.conditions, Ne(register, 0)), (*scope.guards, (register,))
        return replace(scope, conditions=conditions, guards=guards, repeated=True)

    def _accesses(self, statement: Statement, scope: _Scope) -> Iterator[Footprint]:
        """The accesses of a statement without barriers."""
        match statement:
            case Load(access=access) | Store(access=access) | Atomic(access=access):
                made = self._access(_KINDS[type(statement)], access, scope)
                if isinstance(statement, Load) and access.buffer.name in self.trace.distinct and not access.is_masked:
                    among = self.trace.distinct[access.buffer.name].among
                    self.distinct[statement.result.number] = Loaded(access.buffer.name, made.index, among)
                yield made
            case TileLoad() | TileStore():
                yield self._tile(statement, scope)
            case MatrixLoad(access=access):
                self._exchange("load of matrices", access.source, scope, WARP, WARP)
                yield self._row(access, scope)
            case MlirOperation(name=name, source=source) if name in OF_WARPS:
                if name not in (VOTE, MATCH) or self._constants.get(statement.operands[0].number) == -1:  # no members
                    self._exchange(OF_WARPS[name], source, scope, *self._lanes_read(statement))
            case For(body=body):
                yield from self._inside(body, self._loop(statement, scope)[0])
            case While(body=body):
                yield from self._inside(body, self._repeated(statement, scope))
            case If(condition=condition, then=then, otherwise=otherwise):
                holds = scope.at(condition, self.meaning)
                guards = (*scope.guards, (scope.at(condition, {}),))
                for side, given in ((then, holds), (otherwise, sympy.Not(holds))):
                    inner = replace(scope, conditions=(*scope.conditions, given), guards=guards)
                    yield from self._inside(side, inner)
            case FunctionCall():
                yield from self._inside(statement.function.body, self._called(statement, scope))

    def _inside(self, body: tuple[Statement, ...], scope: _Scope) -> Iterator[Footprint]:
        """Copies in a branch of an unrolled loop are merged by the stretch around them."""
        for statement in body:
            yield from self._accesses(statement, scope)

    def _called(self, call: FunctionCall, scope: _Scope) -> _Scope:
        """The function's body reads its parameters; those that are indices have the arguments' values."""
        values = {
            parameter: scope.at(as_expr(argument), {})
            for parameter, argument in zip(call.function.parameters, call.arguments, strict=True)
            if not isinstance(parameter, Value) and not isinstance(argument, Value)
        }
        return replace(scope, values={**scope.values, **values})

    def _loop(self, loop: For, scope: _Scope) -> tuple[_Scope, Symbol, bool, Cond]:
        """The scope of a loop's body, its round, whether it runs at least once, and what holds in the last round."""
        lo, hi, step = (scope.at(as_expr(end), self.meaning) for end in (loop.lo, loop.hi, loop.step))
        known = self.ranges.get(loop.symbol)
        ends = [lo, hi] if known is None or _over_sizes(lo, hi) else [as_expr(known.lo), as_expr(known.hi)]
        number = self.fresh("round", Range(0, FloorDiv(ends[1] - ends[0] + step - 1, step)))
        value = lo + step * number
        conditions = scope.conditions
        if not _over_sizes(lo, hi):
            conditions = (*conditions, Lt(value, hi), *([] if _over_sizes(lo) else [Le(ends[0], lo)]))
        elif step != 1:
            conditions = (*conditions, Lt(value, hi))
        inner = replace(
            scope,
            values={**scope.values, loop.symbol: value},
            conditions=conditions,
            own=(*scope.own, number),
            guards=(*scope.guards, tuple(scope.at(as_expr(end), {}) for end in (loop.lo, loop.hi, loop.step))),
        )
        return inner, number, bool(Lt(lo, hi) == True), Le(hi, value + step)  # noqa: E712  SymPy's true

    # ---- accesses

    def _access(self, kind: str, access: TensorAccess, scope: _Scope) -> Footprint:
        index, position, own = list(access.index), access.position, scope.own
        memory = access.buffer.layout
        by_position = own_layout(access.layout) != own_layout(memory)
        if access.width > 1:
            lane = self.fresh("element", Range(0, access.width))
            position, own = position + lane, (*own, lane)
            if access.axis is None:
                by_position = True
            else:
                index[access.axis] += lane
        mask = scope.at(access.mask, self.meaning)
        conditions = scope.conditions if mask == True else (*scope.conditions, mask)  # noqa: E712
        indices = _element_at(memory, position) if by_position else own_index(access.layout, tuple(index))
        logical = tuple(scope.at(as_expr(i), self.meaning) for i in indices)
        position = scope.at(position, self.meaning)
        return self._made(
            access.buffer, kind, logical, position, replace(scope, conditions=conditions, own=own), access
        )

    def _made(
        self,
        buffer: Buffer,
        kind: str,
        index: tuple[Expr, ...],
        position: Expr,
        scope: _Scope,
        at: TensorAccess | TileLoad | TileStore,
    ) -> Footprint:
        self._accessed += 1
        return Footprint(
            buffer, kind, index, position, scope.conditions, scope.own, at.source,
            not isinstance(at, TensorAccess) or at.by_warp,
            scope.rounds, scope.repeated, (self._accessed, self._accessed),
        )  # fmt: skip

    def _row(self, access: TensorAccess, scope: _Scope) -> Footprint:
        """The row of a matrix that this thread addresses, read for its warp."""
        element = self.fresh("element", Range(0, access.width))
        position = scope.at(access.position + element, self.meaning)
        index = _element_at(access.buffer.layout, position)
        return self._made(access.buffer, "read", index, position, replace(scope, own=(*scope.own, element)), access)

    def _tile(self, statement: TileLoad | TileStore, scope: _Scope) -> Footprint:
        kind, value = ("read", statement.result) if isinstance(statement, TileLoad) else ("write", statement.value)
        assert isinstance(value.width, tuple)
        shape = value.width[::-1] if getattr(statement, "transposed", False) else value.width
        inside = [self.fresh("element", Range(0, n)) for n in shape]
        at = [start + i for start, i in zip(statement.at, inside, strict=True)]
        layout = statement.buffer.layout
        lines = lines_of(layout)
        assert lines is not None
        index = tuple(scope.at(as_expr(i), self.meaning) for i in lines.index(*at))
        position = as_expr(layout.apply(*map(Index, index)))
        inner = replace(scope, own=(*scope.own, *inside))
        return self._made(statement.buffer, kind, index, position, inner, statement)

    def fresh(self, name: str, within: Range) -> Symbol:
        """A new variable of this range."""
        self._counted += 1
        symbol = sympy.Symbol(f"{name}{self._counted}", integer=True)
        self.ranges[symbol] = within
        return symbol


@dataclass(frozen=True, slots=True)
class _Scope:
    """What holds at a statement: values of loop variables, conditions, the thread's own variables, guards."""

    values: Mapping[Any, Any] = field(default_factory=dict)
    conditions: tuple[Cond, ...] = ()
    own: tuple[Symbol, ...] = ()
    guards: tuple[tuple[Expr, ...], ...] = ()
    rounds: tuple[Symbol, ...] = ()
    repeated: bool = False

    def at(self, expr: Expr, meaning: Mapping[Any, Any]) -> Any:
        """An expression with the values of loop variables and the meaning of data."""
        return expr.xreplace(meaning).xreplace(self.values)


def own_layout(layout: Layout) -> Layout:
    """The layout below tilings and transpositions: `own_index` is an index of it."""
    while isinstance(layout, Tiled | Transposed):
        layout = layout.inner
    return layout


def own_index(layout: Layout, index: tuple[Expr, ...]) -> tuple[Any, ...]:
    """An index of a view as the index of its memory's own layout: coordinates of tiles flattened, axes swapped back."""
    while isinstance(layout, Tiled | Transposed):
        if isinstance(layout, Tiled):
            index, layout = tuple(map(as_expr, layout.logical(*map(Index, index)))), layout.inner
        else:
            index, layout = index[::-1], layout.inner
    return index


def _element_at(layout: Layout, position: Expr) -> tuple[Expr, ...]:
    """The index, in memory's own layout, of the element at a position."""
    found = layout.inv(Index(position))
    index = found if isinstance(found, tuple) else (found,)
    return tuple(map(as_expr, own_index(layout, tuple(map(as_expr, index)))))


def flat(nodes: tuple[Node, ...]) -> Iterator[Footprint]:
    """Every access of the nodes."""
    for node in nodes:
        match node:
            case Stretch(accesses=accesses) | Copies(accesses=accesses):
                yield from accesses
            case Rounds(body=body):
                yield from flat(body)
            case Fork(then=then, otherwise=otherwise):
                yield from flat(then)
                yield from flat(otherwise)
            case Sync() | Commit() | Wait():
                pass


def syncs_in(nodes: Sequence[Node]) -> Iterator[Sync]:
    """Every barrier of the nodes."""
    for node in nodes:
        match node:
            case Sync():
                yield node
            case Rounds(body=body):
                yield from syncs_in(body)
            case Fork(then=then, otherwise=otherwise):
                yield from syncs_in((*then, *otherwise))
            case _:
                pass


def waits_in(nodes: Sequence[Node]) -> Iterator[Wait]:
    """Every wait of the nodes."""
    return (node for node in _nested(nodes) if isinstance(node, Wait))


def has_groups(nodes: Sequence[Node]) -> bool:
    """Whether copies are committed in groups, or waited for."""
    return any(isinstance(node, Commit | Wait) for node in _nested(nodes))


def copies_in(nodes: Sequence[Node]) -> Iterator[Footprint]:
    """The accesses of every asynchronous copy of the nodes."""
    return (access for node in _nested(nodes) if isinstance(node, Copies) for access in node.accesses)


def _nested(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        match node:
            case Rounds(body=body):
                yield from _nested(body)
            case Fork(then=then, otherwise=otherwise):
                yield from _nested((*then, *otherwise))


def with_copies(nodes: tuple[Node, ...], buffers: Collection[str]) -> tuple[Node, ...]:
    """The nodes with each copy of an access of these buffers apart: their positions are known, unlike the whole's."""
    found: list[Node] = []
    for node in nodes:
        match node:
            case Stretch(accesses=accesses) | Copies(accesses=accesses):
                apart = (a.copies if a.copies and a.buffer.name in buffers else (a,) for a in accesses)
                node = replace(node, accesses=tuple(access for copies in apart for access in copies))
            case Rounds(body=body):
                node = replace(node, body=with_copies(body, buffers))
            case Fork(then=then, otherwise=otherwise):
                node = replace(node, then=with_copies(then, buffers), otherwise=with_copies(otherwise, buffers))
            case Sync() | Commit() | Wait():
                pass
        found.append(node)
    return tuple(found)


def _over_sizes(*exprs: Expr) -> bool:
    return all(isinstance(symbol, Size) for expr in exprs for symbol in expr.free_symbols)


def _is_sync(statement: Statement) -> bool:
    if isinstance(statement, MlirOperation):
        return statement.name in (WARP_BARRIER, CLUSTER_BARRIER, COMMIT, WAIT)
    return isinstance(statement, Barrier | AsyncCopy)


def _has_sync(statement: Statement) -> bool:
    if isinstance(statement, FunctionCall):
        return any(map(_has_sync, statement.function.body))
    return any(map(_is_sync, statements_in((statement,)))) or any(
        isinstance(inner, FunctionCall) and _has_sync(inner)
        for inner in statements_in((statement,))
        if inner is not statement
    )
