"""The ring programs of a trace: each group of warps of a role becomes an agent.

Waits, arrivals and tile copies carry the use that the user wrote (`ring[use]`). Integers that registers hold are
followed as symbols; a number that is loaded from a tensor which the kernel does not write is a function of its index:
roles that load the same trip count agree on it.

What is not understood is refused with its line. Every statement that touches a stage or a ring has to be named here, or
ends as `Unfollowed`: a statement that was overlooked would be a hole in all proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq, FloorDiv, Le, Select, Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.hardware.limits import WARP
from lego_mlir.proofs.footprints import own_index
from lego_mlir.proofs.rings.agents import (
    ARRIVE,
    WAIT,
    Agent,
    Let,
    NotFollowedError,
    ProgramPart,
    RingBranch,
    RingLoop,
    RingShape,
    RingWord,
    StageAccess,
    Unfollowed,
)
from lego_mlir.proofs.rings.before_roles import settled_tiles, unknown_after
from lego_mlir.proofs.rings.data_integers import DataIntegers
from lego_mlir.proofs.rings.needed_values import without_unneeded
from lego_mlir.proofs.rings.order import RingOrder, StagedBuffer
from lego_mlir.proofs.rings.repeating import with_steps
from lego_mlir.proofs.rings.ring_statements import (
    as_integer,
    gathered,
    has_ring_words,
    is_flat,
    is_integer,
    line_of,
    ring_name,
    symbol_of,
    touches,
)
from lego_mlir.proofs.rings.stage_reads import StageReads
from lego_mlir.proofs.rings.strides import divided
from lego_mlir.proofs.rings.values import HIDDEN, KnownRanges, holds, simplified, symbol_named
from lego_mlir.proofs.rings.whole_stages import whole_stage
from lego_mlir.tracing.emit.carried_products import CarriedSums, carried_sums, is_word, numbers_of
from lego_mlir.tracing.trace.marks import ThreadCopies, TileCopy, WarpRole
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Buffer,
    Compute,
    Constant,
    Convert,
    For,
    FromCondition,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    MlirOperation,
    Read,
    Statement,
    Store,
    TensorAccess,
    ToIndex,
    While,
    Write,
    statements_in,
)
from lego_mlir.tracing.trace.wgmma_products import WarpgroupProduct
from lego_mlir.tracing.words import barrier_rings
from lego_mlir.tracing.words.clustered_blocks import CAST

LANE: Final = symbol_named(f"{HIDDEN}lane")
WARP_NUMBER: Final = symbol_named(f"{HIDDEN}warp")
MOST_CLUSTERS: Final = 2**24
VOTE: Final = "nvvm.vote.sync"


def ring_order(trace: KernelTrace) -> RingOrder:
    """The agents of a kernel and their rings. Raises NotFollowedError, with the line, for what is not understood."""
    return divided(_Reader(trace).order())


class _Reader:
    """The rings of a kernel, the buffers whose stages they guard, and the agents of its roles."""

    def __init__(self, trace: KernelTrace) -> None:
        self.trace = trace
        self.rings: dict[str, RingShape] = {}
        self.buffers: dict[str, StagedBuffer] = {}
        self.ranges = KnownRanges(trace.ranges)
        self.ranges.restart()
        self.ranges.given = tuple(requirement.condition for requirement in trace.requirements)
        self.blocks = prod(trace.cluster)
        self.threads: set[Symbol] = set()  # of each role: its ranges differ
        self.peers: dict[int, tuple[int, int]] = {}  # a ring seen from the cluster -> the ring, and the block
        self.outer, self.settled = trace.body[:0], frozenset[str]()
        self.same = {symbol for symbol, (kind, _) in trace.ids.items() if kind == "block_id"}  # for a block's threads
        self.written = {
            access.buffer.name
            for statement, access in trace.accesses()
            if access is not getattr(statement, "origin", None) and not isinstance(statement, Load | MatrixLoad)
        }

    def order(self) -> RingOrder:
        self._find_rings()
        roles = [n for n, s in enumerate(self.trace.body) if isinstance(s, If) and isinstance(s.mark, WarpRole)]
        if roles:
            self.outer, self.settled = self.trace.body[: roles[0]], settled_tiles(self.trace.body, roles[0])
            self._find_buffers([self.trace.body[n] for n in roles])
            self._require_concurrent(roles)
            agents = [agent for n in roles for agent in self._agents(self.trace.body[n], n)]
        else:
            self._find_buffers(self.trace.body)
            agents = [self._block()]
        return RingOrder(self.rings, self.buffers, agents, self.ranges, self.blocks, self._is_uniform, self.ranks)

    @cached_property
    def products(self) -> list[WarpgroupProduct]:
        """The products of warpgroups in the order in which they are issued: where their first statements are."""
        by_number = {number: product for product in self.trace.products for number in product.covered}
        numbers = (n for s in self.trace.statements() for n in numbers_of(s) if n in by_number)
        found = {id(by_number[n]): by_number[n] for n in numbers}
        return list(found.values())

    def _find_rings(self) -> None:
        constants: dict[int, int] = {}
        for s in self.trace.statements():
            if isinstance(s, FromIndex) and as_expr(s.expr).is_Integer:
                constants[s.result.number] = int(s.expr)
            if not isinstance(s, MlirOperation):
                continue
            if s.name == barrier_rings.CREATE:
                stages = int(s.results[0].dtype.mlir.rpartition("= ")[2].rstrip(">"))
                name = ring_name(s.results[0].number)
                self.rings[name] = RingShape(name, stages, 0)
            elif s.name == barrier_rings.INIT:
                ring = self.rings[ring_name(s.operands[0].number)]
                self.rings[ring.name] = RingShape(ring.name, ring.stages, constants[s.operands[1].number])
            elif s.name == CAST and len(s.operands) == 2 and s.operands[1].number in constants:
                self.peers[s.results[0].number] = s.operands[0].number, constants[s.operands[1].number]

    def _find_buffers(self, roles: Sequence[Statement]) -> None:
        """The tiles that copies on rings fill, and those that one role stores into and another reads."""
        for s in statements_in(tuple(roles)):
            match s:
                case If(mark=TileCopy(tile=tile, ring=on)) if on is not None:
                    self._add_buffer(tile, ring_name(on.number))
                case If(mark=ThreadCopies() as mark, then=then):
                    for copy in (c for c in then if isinstance(c, AsyncCopy)):
                        self._add_buffer(copy.target.buffer, ring_name(mark.ring.number))
                case _:
                    pass
        for role in roles:
            others = tuple(other for other in roles if other is not role)
            stored: dict[str, Buffer] = {}
            for s in statements_in((role,)):
                if isinstance(s, Store) and s.access.buffer.space == "workgroup":
                    stored[s.access.buffer.name] = s.access.buffer
                elif isinstance(s, MlirOperation) and s.name == barrier_rings.ARRIVE and stored:
                    ring, _ = self.peers.get(s.operands[0].number, (s.operands[0].number, 0))
                    for tile in stored.values():
                        if tile.name not in self.buffers and touches({tile.name}, others):
                            self._add_buffer(tile, ring_name(ring), assumed=True)
                    stored = {}

    def _add_buffer(self, tile: Buffer, ring: str, *, assumed: bool = False) -> None:
        """A tile of as many stages as the ring has, below each other."""
        rows, stages = as_expr(tile.layout.dims()[0]), self.rings[ring].stages
        if rows.is_Integer and int(rows) % stages == 0:
            height, elements = int(rows) // stages, int(tile.size) // stages
            self.buffers[tile.name] = StagedBuffer(tile.name, stages, height, elements, ring=ring, assumed=assumed)

    def _require_concurrent(self, roles: Sequence[int]) -> None:
        """Raise NotFollowedError unless the roles run at the same time, and nothing else uses their rings."""
        body = self.trace.body
        marks = [s.mark for s in body if isinstance(s, If) and isinstance(s.mark, WarpRole)]
        warps = [warp for mark in marks for warp in range(mark.first, mark.end)]
        adjacent = bool(roles) and list(roles) == list(range(roles[0], roles[-1] + 1))
        if not adjacent or len(warps) != len(set(warps)):
            raise NotFollowedError("roles that do not all run at the same time")
        for number, statement in enumerate(body):
            if number not in roles and (has_ring_words((statement,)) or touches(self.buffers, (statement,))):
                source = getattr(statement, "source", "")
                raise NotFollowedError(f"{source}: rings or their stages outside of roles")

    def _agents(self, branch: Statement, number: int) -> Iterator[Agent]:
        assert isinstance(branch, If) and isinstance(branch.mark, WarpRole)
        role = branch.mark
        self._require_flat()
        thread = symbol_named(f"thread of role {number}")
        self.threads.add(thread)
        self.ranges[thread] = Range(0, role.warps * WARP)
        for group in range(role.groups):
            first = (role.first + group * role.warps) * WARP
            reader = _AgentReader(self, thread, first, (*self.outer, *branch.then))
            name = f"warps {role.first} to {role.end - 1}" + (f", group {group}" if role.groups > 1 else "")
            yield Agent(name, role.warps, (*reader.of_block(self.outer), *reader.program(branch.then)), number)

    def _block(self) -> Agent:
        """A block without roles: all its warps copy and use the stages."""
        self._require_flat()
        thread = symbol_named("thread of the block")
        (threads,) = map(as_expr, self.trace.block)
        if not threads.is_Integer or int(threads) % WARP:
            raise NotFollowedError("rings in a block that is not of whole warps")
        self.threads.add(thread)
        self.ranges[thread] = Range(0, int(threads))
        reader = _AgentReader(self, thread, 0, self.trace.body)
        return Agent("the block", int(threads) // WARP, reader.program(self.trace.body))

    def is_same(self, expr: Expr) -> bool:
        """Whether a number is visibly one for all threads of a block."""
        return all(isinstance(symbol, Size) or symbol in self.same for symbol in expr.free_symbols)

    def _require_flat(self) -> None:
        if len(self.trace.block) != 1:
            raise NotFollowedError("rings in a block of several dimensions")

    def _is_uniform(self, expr: Expr) -> bool:
        """Whether a use or a number of rounds is one for all threads of the group and all blocks of a cluster."""
        if self.threads & expr.free_symbols:
            return False
        ids = {symbol for symbol, (kind, _) in self.trace.ids.items() if kind == "block_id"}
        of_clusters = {
            quotient: sympy.Symbol("cluster")
            for quotient in expr.atoms(FloorDiv)
            if quotient.args[0] in ids and quotient.args[1].is_Integer and int(quotient.args[1]) % self.blocks == 0
        }
        if self.blocks == 1 or not expr.xreplace(of_clusters).free_symbols & ids:
            return True
        first, *others = (expr.xreplace(rank) for rank in self.ranks) if self.ranks else (None,)
        return first is not None and all(self._are_equal(first, other) for other in others)

    def _are_equal(self, one: Expr | Cond, other: Expr | Cond) -> bool:
        """Whether two numbers, or two conditions, are equal."""
        if one == other or isinstance(one, sympy.Expr):
            return bool(one == other) or holds(Eq(one, other), self.ranges)
        ways = (one, sympy.Not(other)), (other, sympy.Not(one))
        return all(holds(sympy.Or(*way), self.ranges) for way in ways)

    @cached_property
    def ranks(self) -> list[dict[Symbol, Expr]]:
        """The block's id of each block of a cluster along x; none for other clusters."""
        axes = [symbol for symbol, (kind, axis) in self.trace.ids.items() if (kind, axis) == ("block_id", "x")]
        if not axes or not self.trace.cluster or self.trace.cluster[0] != self.blocks:
            return []
        cluster = symbol_named("cluster")
        end = as_expr(self.trace.ranges[axes[0]].hi)
        self.ranges[cluster] = Range(0, max(1, int(end) // self.blocks) if end.is_Integer else MOST_CLUSTERS)
        return [{axes[0]: self.blocks * cluster + rank} for rank in range(self.blocks)]

    def sharing(self, blocks: Expr) -> list[list[int]] | None:
        """The blocks of a cluster that copy for each other, by the masks in which they copy.

        None unless each block is in its own mask, and all that are in it have the same.
        """
        masks = [simplify(as_expr(blocks).xreplace(rank), self.ranges).expr for rank in self.ranks]
        if not masks or not all(mask.is_Integer for mask in masks):
            return None
        members = [[k for k in range(self.blocks) if int(mask) >> k & 1] for mask in masks]
        alike = all(k in held and all(members[b] == held for b in held) for k, held in enumerate(members))
        return [held for k, held in enumerate(members) if held[0] == k] if alike else None

    def parts_differ(self, row: Expr, rows: int, classes: Sequence[Sequence[int]]) -> bool:
        """Whether the parts that blocks copy for each other are below each other."""
        tops = [simplify(row.xreplace(rank), self.ranges).expr for rank in self.ranks]
        pairs = ((tops[one], tops[other]) for held in classes for one, other in pairwise(held))
        return all(holds(Le(one + rows, other), self.ranges) for one, other in pairs)


class _AgentReader:
    """The program of one group of warps: `thread` is the number of a thread in it, `first` that of its first thread.

    `body` is all that it runs.
    """

    def __init__(self, kernel: _Reader, thread: Symbol, first: int, body: Sequence[Statement]) -> None:
        self.kernel, self.thread = kernel, thread
        ids = kernel.trace.ids
        tx = next(symbol for symbol, (kind, _) in ids.items() if kind == "thread_id")
        self.here = {tx: self.thread + first}
        self.here_known: dict[Expr, Expr] = {}
        self.stages: dict[tuple[Expr, int], Expr | None] = {}  # the whole stages that threads access
        self.values = DataIntegers(kernel.ranges, body)
        self.before: dict[int, dict[int, list[StageAccess]]] = {}  # what a round of a loop leaves in flight
        self.reads = StageReads(kernel.products, kernel.buffers, self.access)

    def program(self, body: Sequence[Statement]) -> tuple[ProgramPart, ...]:
        return with_steps(without_unneeded(self._gathered(self._body(body))))

    def of_block(self, body: Sequence[Statement]) -> Iterator[ProgramPart]:
        """What the block computes before its roles: an index of data is unknown unless all threads have the same."""
        for s in body:
            match s:
                case Constant() | FromIndex() | FromCondition() | Convert() | Compute():
                    self.values.compute(s)
                case Load():
                    self._loaded(s)
                case ToIndex(symbol, operand):
                    known = operand.number in self.values
                    value = self._at(self.values.index(symbol, operand)) if known else None
                    if value is None or self.thread in value.free_symbols:
                        yield Unfollowed("data as an index", frozenset({symbol}))
                    elif self.kernel.blocks == 1 and self.kernel.is_same(value):
                        self.kernel.same.add(symbol)
                    else:
                        yield Let(symbol, value)
                case Read() | Write():
                    yield from self._symbol(s)
                case If() if is_word(s):
                    yield from self.of_block(s.then)
                case _ if unknown := unknown_after(s):
                    yield Unfollowed("a loop, a branch or a call before the roles", unknown)

    def _gathered(self, parts: Iterator[ProgramPart]) -> tuple[ProgramPart, ...]:
        return tuple(gathered(tuple(parts), self.kernel.blocks))

    def _body(self, body: Sequence[Statement]) -> Iterator[ProgramPart]:
        """A region: products that it issues are complete at its end."""
        before = self.reads.in_flight()
        yield from self._statements(body)
        yield from self.reads.land([flight for flight in self.reads.in_flight() if flight not in before])

    def _statements(self, body: Sequence[Statement]) -> Iterator[ProgramPart]:
        for statement in body:
            if isinstance(statement, If) and isinstance(statement.mark, ThreadCopies):
                yield from self._by_threads(statement, statement.mark)
                continue
            if isinstance(statement, If) and is_word(statement):
                yield from self._statements(statement.then)
                continue
            yield from self.reads.landed_by(statement)
            yield from self._part(statement)

    def _repeated(self, loop: For) -> Iterator[ProgramPart]:
        """A loop's body, which begins with what its round before left in flight: its body is read for that first."""
        sums = carried_sums(loop, self.reads.products)
        self.reads.carried.append(frozenset(register for _, registers in sums for register in registers))
        yield from self._carrying(loop, sums) if sums else self._body(loop.body)
        self.reads.carried.pop()
        if sums:
            self.reads.enter(loop.symbol, sums, self.before[id(loop)])

    def _carrying(self, loop: For, sums: CarriedSums) -> Iterator[ProgramPart]:
        self.reads.enter(loop.symbol, sums, {id(product): () for product, _ in sums})
        for _ in self._statements(loop.body):
            pass
        before = self.before[id(loop)] = self.reads.leave(sums)
        for _ in self.reads.land(self.reads.of_products()):
            pass
        self.reads.enter(loop.symbol, sums, before)
        yield from self._statements(loop.body)
        self.reads.leave(sums)
        yield from self.reads.land(self.reads.of_products())

    def _at(self, expr: Expr, *, uniform: bool = False) -> Expr:
        """An expression over this group's threads. Raises NotFollowedError if it has to be uniform and is not."""
        if not hasattr(expr, "xreplace"):
            return expr
        if expr not in self.here_known:
            here = expr.xreplace(self.here)
            depends = isinstance(here, sympy.Expr) and self.thread in here.free_symbols
            simple = depends or (uniform and isinstance(here, sympy.Expr))
            self.here_known[expr] = simplified(here, self.kernel.ranges) if simple else here
        expr = self.here_known[expr]
        if uniform and isinstance(expr, sympy.Expr) and self.thread in expr.free_symbols:
            raise NotFollowedError(f"{expr} differs between the threads of a role")
        return expr

    def _part(self, s: Statement) -> Iterator[ProgramPart]:
        place = line_of(s)
        match s:
            case Constant() | FromIndex() | FromCondition() | Convert() | Compute():
                self.values.compute(s)
            case Read() | Write() | ToIndex():
                yield from self._symbol(s)
            case Load(access=access) if access.buffer.space == "global":
                self._loaded(s)
            case MlirOperation(name=name) if name == VOTE:
                self._voted(s)
            case While(body=inner):
                if has_ring_words(inner) or touches(self.kernel.buffers, inner):
                    yield Unfollowed(f"{place}: a while loop with words of rings or accesses of stages")
                written = {symbol_of(t.register) for t in statements_in(inner) if isinstance(t, Write)}
                if written:
                    yield Unfollowed("registers of a while loop", frozenset(written))
            case For():
                lo, hi, step = (self._at(as_expr(e), uniform=has_ring_words(s.body)) for e in (s.lo, s.hi, s.step))
                body = self._gathered(self._repeated(s))
                yield RingLoop(s.symbol, lo, hi, step, body, place)
            case If():
                yield from self._branch(s, place)
            case _:
                yield from self._effect(s, place)

    def _branch(self, branch: If, place: str) -> Iterator[ProgramPart]:
        if isinstance(branch.mark, TileCopy):
            yield from self._copied(branch.mark, place)
            return
        arrival = [t for t in branch.then if isinstance(t, MlirOperation) and t.name == barrier_rings.ARRIVE]
        if arrival:
            yield from self._arrival(arrival[0], place)
            return
        then, otherwise = (self._gathered(self._body(side)) for side in (branch.then, branch.otherwise))
        if then or otherwise:
            yield RingBranch(self._at(branch.condition), then, otherwise, place)

    def _effect(self, s: Statement, place: str) -> Iterator[ProgramPart]:
        """Waits, and accesses of stages; another statement that touches a stage is not followed."""
        buffers = self.kernel.buffers
        match s:
            case MlirOperation(name=barrier_rings.WAIT):
                yield RingWord(WAIT, ring_name(s.operands[0].number), self._at(s.use, uniform=True), place)
            case MlirOperation(name=barrier_rings.ARRIVE):
                yield Unfollowed(f"{place}: an arrival of each lane")
            case FunctionCall():
                if has_ring_words(s.function.body) or touches(buffers, s.function.body):
                    yield Unfollowed(f"{place}: words of rings, or accesses of stages, in a function that is called")
                if unknown := unknown_after(s):
                    yield Unfollowed("indices that a function returns", unknown)
            case MatrixLoad(access=access) | Load(access=access) | Store(access=access):
                if access.buffer.name in buffers:
                    if access.block is not None:
                        yield Unfollowed(f"{place}: an access of another block's stage")
                    yield self.access(s, access)
            case AsyncCopy(target=target) if target.buffer.name in buffers:
                yield Unfollowed(f"{place}: a copy into {target.buffer.name} that completes on no ring")
            case _ if touches(buffers, (s,)):
                yield Unfollowed(f"{place}: an access of a stage that is not followed")

    def access(self, s: Statement, access: TensorAccess) -> StageAccess:
        """The rows of an access; of one of matrices the positions, those of the whole stage if all threads read it."""
        kind, name = "write" if isinstance(s, Store) else "read", access.buffer.name
        if isinstance(s, MatrixLoad):  # the index of a transposed one counts in the fragment, not in memory
            first, count = self._stage_at(as_expr(access.position), self.kernel.buffers[name].elements)
            return StageAccess(kind, name, first, count, line_of(s), by_position=True)
        row, *rest = map(as_expr, own_index(access.layout, tuple(access.index)))
        columns = (rest[0].xreplace(self.here), 1) if len(rest) == 1 else None
        flat = is_flat(access, row)
        return StageAccess(kind, name, self._at(row), 1, line_of(s), is_flat=flat, columns=columns)

    def _stage_at(self, position: Expr, size: int) -> tuple[Expr, int]:
        """The first position of the stage that all threads touch, and its size; else the position of one, and 1."""
        key = position.xreplace(self.here), size
        if key not in self.stages:
            self.stages[key] = whole_stage(*key, self.thread, self.kernel.ranges)
        stage = self.stages[key]
        return (self._at(position), 1) if stage is None else (stage, size)

    # -- integers

    def _symbol(self, s: Read | Write | ToIndex) -> Iterator[ProgramPart]:
        match s:
            case Read(_, register) if is_integer(register.dtype) and register.width is None:
                yield self.values.read(s)
            case Write(register, value) if is_integer(register.dtype) and register.width is None:
                if value.number in self.values:
                    yield Let(symbol_of(register), self._at(self.values[value.number]))
                else:
                    yield Unfollowed("a register", frozenset({symbol_of(register)}))
            case ToIndex(symbol, operand) if operand.number in self.values:
                yield Let(symbol, self._at(self.values.index(symbol, operand)))
            case ToIndex(symbol, _):
                yield Unfollowed("data as an index", frozenset({symbol}))
            case _:
                pass

    def _loaded(self, s: Load) -> None:
        """An element of a tensor that nobody writes, or of a settled tile, is a function of its index, -1 if masked."""
        access, name = s.access, s.access.buffer.name
        fixed = name in self.kernel.settled or (access.buffer.space == "global" and name not in self.kernel.written)
        if not fixed or access.width != 1 or not is_integer(s.result.dtype):
            return
        index = tuple(as_expr(i) for i in access.index)
        if access.is_masked:
            other = None if s.other is None else self.values.get(s.other.number)
            if other is None or not other.is_Integer:
                return
            name, index = f"{name} or {other}", tuple(Select(access.mask, i, sympy.Integer(-1)) for i in index)
        span = access.buffer.values if not access.is_masked else None
        self.values.load(s.result, sympy.Function(name, integer=True)(*index), span)

    def _voted(self, s: MlirOperation) -> None:
        """A vote of a warp is a function of its condition in the lanes, if all warps of the agent have the same."""
        (result,), condition = s.results, self.values.get(s.operands[1].number)
        if condition is None:
            return
        tx = next(iter(self.here))
        (first,) = (value - self.thread for value in self.here.values())
        by_lane = as_integer(condition).xreplace({tx: first + WARP * WARP_NUMBER + LANE})
        warps = Range(0, self.kernel.ranges[self.thread].hi // WARP)
        ranges = {**self.kernel.ranges, LANE: Range(0, WARP), WARP_NUMBER: warps}
        by_lane = simplified(by_lane, ranges)
        if WARP_NUMBER not in by_lane.free_symbols:
            kind = dict(s.attributes)["kind"].rpartition(" ")[2].rstrip(">")
            self.values[result.number] = sympy.Function(f"vote {kind}", integer=True)(by_lane)

    # -- arrivals and copies

    def _arrival(self, s: MlirOperation, place: str) -> Iterator[ProgramPart]:
        ring, block = s.operands[0].number, None
        if self.kernel.blocks > 1:
            ring, block = self.kernel.peers.get(ring, (ring, None))
            if block is None:
                yield Unfollowed(f"{place}: an arrival at this block alone, in a cluster")
        products = self.reads.of_products()
        if barrier_rings.PREVIOUS in s.attributes:
            products = products[:-1]
        elif barrier_rings.GO_ON in s.attributes:
            products = []
        yield from self.reads.land(products)
        yield from self.reads.going_on()
        yield RingWord(ARRIVE, ring_name(ring), self._at(s.use, uniform=True), place, block)
        yield from self.reads.going_on()

    def _by_threads(self, word: If, mark: ThreadCopies) -> Iterator[ProgramPart]:
        """The copies of single threads that complete on a ring, as `_part` has the rest of the word."""
        for s in word.then:
            if isinstance(s, AsyncCopy) and s.target.buffer.name in self.kernel.buffers:
                use = self._at(mark.use, uniform=True)
                yield replace(self.access(s, s.target), kind="copy", on=ring_name(mark.ring.number), use=use)
            else:
                yield from self._part(s)

    def _copied(self, mark: TileCopy, place: str) -> Iterator[ProgramPart]:
        name = mark.tile.name
        if name not in self.kernel.buffers:
            return
        first, column = map(as_expr, mark.into)
        row, columns = self._at(first), (column.xreplace(self.here), mark.shape[1])
        if mark.stores:
            stored = StageAccess("read", name, row, mark.shape[0], place, late=True, columns=columns)
            yield self.reads.begin_store(stored)
            return
        if mark.ring is None:
            yield Unfollowed(f"{place}: a copy into {name} that completes on no ring")
            return
        classes: list[list[int]] | None = []
        if mark.blocks is not None:
            classes = self.kernel.sharing(mark.blocks)
            if classes is None:
                yield Unfollowed(f"{place}: not shown which blocks of a cluster copy into {name} for each other")
            elif not self.kernel.parts_differ(first, mark.shape[0], classes):
                yield Unfollowed(f"{place}: not shown that the blocks of a cluster copy different rows of {name}")
        yield StageAccess(
            "copy",
            name,
            row,
            mark.shape[0],
            place,
            ring_name(mark.ring.number),
            self._at(mark.use, uniform=True),
            whole_rows=bool(column == 0 and as_expr(mark.tile.layout.dims()[1]) == mark.shape[1]),
            shared=tuple(map(tuple, classes or ())),
            columns=columns,
        )
