"""Count what one launch of a traced kernel does, from its trace: requests, sectors, wavefronts, operations of a block.

The trace has each address as an expression over thread ids, block ids and loop variables. A sample of blocks is
evaluated: every access for all threads of a block, every loop for a sample of its iterations, each branch for the lanes
that take it. Nothing is compiled or run, so a candidate costs milliseconds. What depends on data (an address that was
loaded, a branch on a value, a `while`) cannot be evaluated; the interpreter then runs the sampled blocks on real input
and its counts replace these.

>>> from lego_mlir import f32
>>> from lego_mlir.kernels import transpose
>>> counts = counts_of(transpose.build("shared", 4096, 4096, f32), {})
>>> counts.blocks, counts.threads, counts.sectors, counts.wavefronts
(16384, 256, 256.0, 1056.0)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import sympy

from lego_mlir.aliases import Array, Cond, Expr
from lego_mlir.caches.time_model import TAG_SETS, most_distinct
from lego_mlir.errors import ExpressionError, UsageError
from lego_mlir.expr.cost import MODELS
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.sharing import operands
from lego_mlir.hardware import banks, sectors
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import BANK_BYTES, BANK_ROW_BYTES, BANKS, LINE_BYTES, SECTOR_BYTES
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Buffer,
    Compute,
    Constant,
    Contract,
    Convert,
    For,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    Register,
    Statement,
    Store,
    TensorAccess,
    TileLoad,
    TileStore,
    Value,
    While,
    Write,
    accesses_of,
    statements_in,
)

if TYPE_CHECKING:
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.choices.product_tile import ProductTile
    from lego_mlir.tracing.definition.kernel import Kernel

BLOCKS: Final = 6
"""Blocks that are evaluated, spread over the grid."""
ITERATIONS: Final = 12
"""Iterations of a loop that are evaluated; of nested loops fewer."""
EVERY_BLOCK: Final = 1 << 20
"""Blocks up to which the iterations of every block are compared."""
MMA: Final = 16 * 8 * 16
"""Products of one `mma.sync` m16n8k16. PTX ISA."""
INDEX_OPERATIONS: Final = MODELS["cuda"]
PLACES: Final = LINE_BYTES // SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class TimedProduct:
    """A matrix product, the tile of its blocks, and the bytes of shared memory that they take."""

    size: ProductSize
    tile: ProductTile
    shared: int


@dataclass(frozen=True, slots=True)
class LaunchCounts:
    """One launch: the grid, what a block needs, and what a block does on average.

    Counts are of a block: `requests` global memory instructions of its warps, `loads` those that read; `places` and
    `passes` what L1 does for the addresses of loads (`caches.time_model`), `sectors` those moved between SM and L1,
    `fills` the distinct sectors that it reads, `stores` the sectors that it writes, `packed` those that could hold the
    same bytes, `wavefronts` of shared memory, `instructions` of its warps, `mma` matrix products (m16n8k16), `rounds`
    the global loads that wait for each other.
    `touched` are distinct bytes of all tensors of the whole launch. `registers` is an estimate for each thread, `held`
    those that loops carry, at least. `imbalance` is the work of the fullest block over the average: of persistent
    blocks some do a tile more. `launches` is how often the same launch is made, one after the other. A `product` is a
    pipelined product of `kernels.matmul`, whose own model knows more than these counts.
    """

    blocks: int
    threads: int
    shared_bytes: int = 0
    registers: int = 32
    held: int = 0
    requests: float = 0.0
    loads: float = 0.0
    places: float = 0.0
    passes: float = 0.0
    sectors: float = 0.0
    fills: float = 0.0
    stores: float = 0.0
    packed: float = 0.0
    wavefronts: float = 0.0
    instructions: float = 0.0
    mma: float = 0.0
    rounds: float = 1.0
    touched: float = 0.0
    imbalance: float = 1.0
    launches: int = 1
    product: TimedProduct | None = None
    notes: tuple[str, ...] = ()

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP)


def counts_of(kernel: Kernel, sizes: Mapping[str, int], blocks: int = BLOCKS) -> LaunchCounts:
    """The counts of a kernel's launch for these sizes, from a sample of `blocks`.

    Raises UsageError for a missing size, and what tracing raises.
    """
    trace = kernel.trace()
    missing = [size.name for size in kernel.sizes if size.name not in sizes]
    if missing:
        raise UsageError(f"kernel {kernel.name} needs a value for {', '.join(missing)}")
    given = {size.name: sizes[size.name] for size in kernel.sizes}
    grid, block = (_extents(extents, given) for extents in (kernel.grid, kernel.block))
    walk = _Walk(trace, given, grid, block, blocks)
    walk.body(trace.body, walk.everyone, 1.0)
    return walk.counts(_touched(trace, given))


def _extents(extents: Sequence[Expr | int], sizes: Mapping[str, int]) -> tuple[int, int, int]:
    found = [n if isinstance(n, int) else int(evaluate(n, sizes)) for n in extents]
    return (*found, 1, 1)[:3]  # type: ignore[return-value]


def _touched(trace: KernelTrace, sizes: Mapping[str, int]) -> float:
    """The bytes of all tensors that are accessed, each direction once."""
    directions: dict[tuple[str, bool], int] = {}
    for statement in trace.statements():
        for access in accesses_of(statement):
            if access.buffer.space == "global":
                writes = isinstance(statement, Store | Atomic)
                size = int(evaluate(access.buffer.size, sizes)) * access.buffer.dtype.bytes
                directions[access.buffer.name, writes] = size
    return float(sum(directions.values()))


@dataclass(slots=True)
class _Sums:
    """Sums over the sampled blocks; sectors of loads as (block, sector) numbers of each buffer."""

    requests: float = 0.0
    loads: float = 0.0
    places: float = 0.0
    passes: float = 0.0
    sectors: float = 0.0
    loaded: float = 0.0
    stores: float = 0.0
    packed: float = 0.0
    wavefronts: float = 0.0
    instructions: float = 0.0
    mma: float = 0.0
    seen: dict[str, list[Array]] = field(default_factory=dict)
    seen_sectors: float = 0.0
    notes: dict[str, None] = field(default_factory=dict)


class _Walk:
    """The statements of a trace, evaluated for the threads of sampled blocks as arrays (blocks, warps, lanes)."""

    def __init__(
        self,
        trace: KernelTrace,
        sizes: Mapping[str, int],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        sampled: int,
    ) -> None:
        self.trace, self.grid, self.block = trace, grid, block
        self.threads, self.total = math.prod(block), math.prod(grid)
        chosen = _spread(self.total, sampled)
        self.sampled = len(chosen)
        warps = -(-self.threads // WARP)
        lane = np.arange(warps * WARP, dtype=np.int64).reshape(1, warps, WARP)
        self.everyone = np.broadcast_to(lane < self.threads, (self.sampled, warps, WARP))
        lane = np.where(lane < self.threads, lane, 0)
        self.known: dict[str, Array | int] = dict(sizes)
        of_block = chosen.reshape(-1, 1, 1)
        for symbol, (what, axis) in trace.ids.items():
            a = "xyz".index(axis)
            number, extents = (of_block, grid) if what == "block_id" else (lane, block)
            if what in ("block_id", "thread_id"):
                self.known[str(symbol)] = number // math.prod(extents[:a]) % extents[a]
            else:
                self.known[str(symbol)] = (grid if what == "grid_dim" else block)[a]
        self.sums = _Sums()
        self.rounds = _rounds(trace.body, self)
        self.depth = 0
        self.computed: set[Expr] = set()

    def counts(self, touched: float) -> LaunchCounts:
        """The averages of a block."""
        s, n = self.sums, max(self.sampled, 1)
        distinct = sum(np.unique(np.concatenate(parts)).size for parts in s.seen.values())
        scale = s.loaded / s.seen_sectors if s.seen_sectors else 1.0
        registers, held = _registers(self.trace)
        names = "requests loads places passes sectors stores packed wavefronts instructions mma"
        return LaunchCounts(
            blocks=self.total,
            threads=self.threads,
            shared_bytes=_shared_bytes(self.trace),
            registers=registers,
            held=held,
            fills=distinct * scale / n,
            rounds=self.rounds,
            touched=touched,
            imbalance=_imbalance(self.trace, self.known, self.grid),
            notes=tuple(s.notes),
            **{name: getattr(s, name) / n for name in names.split()},
        )

    # ---- statements

    def body(self, body: Sequence[Statement], active: Array, times: float) -> None:
        """Every statement of a body for these lanes, `times` over."""
        for statement in body:
            self.statement(statement, active, times)

    def statement(self, statement: Statement, active: Array, times: float) -> None:
        """One statement, with its body."""
        warps = float(active.any(axis=-1).sum()) * times
        match statement:
            case For():
                self.loop(statement, active, times)
            case If(condition=condition, then=then, otherwise=otherwise):
                taken = self.value(condition, active)
                self.sums.instructions += warps * (1 + self.work(condition))
                sides = (active, active) if taken is None else (active & taken, active & ~taken)
                for side, lanes in zip((then, otherwise), sides, strict=True):
                    if side and lanes.any():
                        self.body(side, lanes, times)
            case While(body=body):
                self.sums.notes["a while loop is counted once"] = None
                self.body(body, active, times)
            case FunctionCall(function=function, arguments=arguments):
                for parameter, argument in zip(function.parameters, arguments, strict=False):
                    if not isinstance(parameter, Value) and (value := self.number(argument)) is not None:
                        self.known[str(parameter)] = value
                self.body(function.body, active, times)
            case Contract(a=a, c=c):
                m, n = c.width  # type: ignore[misc]
                self.sums.mma += warps * m * n * a.width[1] / MMA  # type: ignore[index]
                self.sums.instructions += warps * m * n * a.width[1] / MMA  # type: ignore[index]
            case TileLoad() | TileStore():
                self.tile(statement, warps)
            case Compute(result=result) | Convert(result=result):
                self.sums.instructions += warps * _words(result)
            case FromIndex(expr=expr):
                self.sums.instructions += warps * (1 + self.work(expr))
            case Barrier():
                self.sums.instructions += 4 * warps
            case Constant() | Write():
                pass
            case _:
                for access in accesses_of(statement):
                    self.access(statement, access, active, times)

    def loop(self, loop: For, active: Array, times: float) -> None:
        """A sample of the iterations of a loop, weighted so that all are counted."""
        bounds = [self.number(e) for e in (loop.lo, loop.hi, loop.step)]
        if any(bound is None for bound in bounds):
            self.sums.notes[f"the loop of line {loop.source.line} depends on data and is counted once"] = None
            self.body(loop.body, active, times)
            return
        lo, hi, step = (np.asarray(bound) for bound in bounds)
        trips = np.broadcast_to(-(-(hi - lo) // step), active.shape)
        most = int(np.where(active, trips, 0).max(initial=0))
        room = max(ITERATIONS >> 2 * self.depth, 2)
        chosen = np.unique(np.linspace(0, most - 1, min(most, room)).round().astype(np.int64)) if most > 0 else ()
        self.depth += 1
        computed = self.computed
        for i in chosen:
            self.computed = set(computed)
            self.known[str(loop.symbol)] = lo + i * step
            inside = active & (lo + i * step < hi)
            weight = times * most / len(chosen)
            self.sums.instructions += 2 * weight * float(inside.any(axis=-1).sum())
            if inside.any():
                self.body(loop.body, inside, weight)
        self.computed = computed
        self.depth -= 1
        self.known.pop(str(loop.symbol), None)

    # ---- accesses

    def access(self, statement: Statement, access: TensorAccess, active: Array, times: float) -> None:
        """One access of an address for each lane."""
        position = self.number(access.position)
        mask = self.value(access.mask, active) if access.is_masked else active
        lanes = active if mask is None else active & mask
        alive = lanes.any(axis=-1)
        warps = float(alive.sum()) * times
        if not warps:
            return
        width = access.width * access.buffer.dtype.bytes
        copies = isinstance(statement, AsyncCopy) and access is statement.target
        self.sums.instructions += warps * (not copies + self.work(access.position) + self.work(access.mask))
        if position is None:
            self.sums.notes[f"the address of line {access.source.line} depends on data"] = None
            position = np.random.default_rng(0).integers(0, 1 << 24, active.shape) * access.width
        address = np.broadcast_to(np.asarray(position), active.shape) * access.buffer.dtype.bytes
        everyone = None if lanes.all() else lanes
        if access.buffer.space == "workgroup":
            fronts = banks.wavefronts(address, width, everyone)
            self.sums.wavefronts += float(np.where(alive, fronts, 0).sum()) * times
            return
        writes = isinstance(statement, Store | Atomic)
        if isinstance(statement, MatrixLoad):
            return
        some = None if everyone is None else np.asarray(lanes[alive])
        self.request(access.buffer, address[alive], some, width, writes, times, np.asarray(alive))

    def request(
        self, buffer: Buffer, address: Array, lanes: Array | None, width: int, writes: bool, times: float, alive: Array
    ) -> None:
        """Requests of global memory, (requests, 32)."""
        found = sectors.requests(address, width, lanes, look_for_wider=False)
        moved = found.sectors
        s = self.sums
        s.requests += len(address) * times
        s.sectors += float(moved.sum()) * times
        if writes:
            s.stores += float(moved.sum()) * times
            s.packed += float(found.ideal.sum()) * times
            return
        s.loaded += float(moved.sum()) * times
        places, passes = _passes(address, lanes)
        s.loads += len(address) * times
        s.places += places * times
        s.passes += passes * times
        block = np.broadcast_to(np.arange(self.sampled).reshape(-1, 1), alive.shape)[alive]
        sector = address // SECTOR_BYTES + (block.reshape(-1, 1) << 48)
        seen = np.unique(sector if lanes is None else sector[lanes])
        s.seen.setdefault(buffer.name, []).append(seen)
        s.seen_sectors += float(moved.sum())

    def tile(self, statement: TileLoad | TileStore, warps: float) -> None:
        """A tile read by `ldmatrix` or written by a warp: 512 bytes an instruction, without conflicts."""
        value = statement.result if isinstance(statement, TileLoad) else statement.value
        rows, columns = value.width  # type: ignore[misc]
        size = rows * columns * value.dtype.bytes
        self.sums.wavefronts += warps * size / BANK_ROW_BYTES
        self.sums.instructions += warps * max(size / 512, 1)

    # ---- values

    def work(self, expr: Expr) -> int:
        """Operations of an index expression that were not computed before; a constant offset is free."""
        if not isinstance(expr, sympy.Basic) or expr.is_Atom:
            return 0
        if expr.is_Add and expr.args[0].is_Integer:
            expr = expr - expr.args[0]
        total, open_ = 0, [expr]
        while open_:
            node = open_.pop()
            if node.is_Atom or node in self.computed:
                continue
            self.computed.add(node)
            total += INDEX_OPERATIONS.own(node)
            open_ += operands(node)
        return total

    def number(self, expr: Expr) -> Array | int | None:
        """An index expression for every lane; None if it depends on data."""
        if isinstance(expr, int):
            return expr
        try:
            return evaluate(expr, {k: v for k, v in self.known.items() if k in {str(s) for s in expr.free_symbols}})
        except (ExpressionError, AttributeError, ZeroDivisionError, ValueError):
            return None

    def value(self, condition: Cond, active: Array) -> Array | None:
        """A condition for every lane; None if it depends on data."""
        if condition in (True, False):
            return np.broadcast_to(np.bool_(bool(condition)), active.shape)
        found = self.number(condition)
        return None if found is None else np.broadcast_to(np.asarray(found, bool), active.shape)


def _spread(total: int, most: int) -> Array:
    """All numbers below `total`, or `most` of them, away from both ends, where blocks may be incomplete."""
    if total <= most:
        return np.arange(total, dtype=np.int64)
    return np.unique(np.linspace(0, total - 1, most + 2)[1:-1].round().astype(np.int64))


def _passes(address: Array, lanes: Array | None) -> tuple[float, float]:
    """Sectors in the fullest place of a line, and passes of banks or tags; as `caches.time_model` models L1."""
    real = np.ones(address.shape, bool) if lanes is None else lanes
    word, sector, line = address // BANK_BYTES, address // SECTOR_BYTES, address // LINE_BYTES
    in_banks = most_distinct(word, word % BANKS, BANKS, real)
    in_tags = most_distinct(line, line % TAG_SETS, TAG_SETS, real)
    places = most_distinct(sector, sector % PLACES, PLACES, real)
    return float(places.sum()), float(np.maximum(in_banks, in_tags).sum())


def _rounds(body: Sequence[Statement], walk: _Walk) -> float:
    """Rounds of global loads of one thread that wait for each other: groups between barriers, for each iteration."""
    found, loading = 0.0, False
    for statement in body:
        match statement:
            case Barrier():
                loading = False
            case For() if inner := _rounds(statement.body, walk):
                bounds = [walk.number(e) for e in (statement.lo, statement.hi, statement.step)]
                trips = 1.0
                if all(b is not None for b in bounds):
                    lo, hi, step = (np.asarray(b) for b in bounds)
                    trips = max(float(np.mean(-(-(hi - lo) // step))), 0.0)
                walk.known.pop(str(statement.symbol), None)
                found, loading = found + inner * trips, False
            case If(condition=condition, then=then, otherwise=otherwise):
                taken = walk.value(condition, walk.everyone)
                sides = [
                    side
                    for side, lanes in ((then, taken), (otherwise, None if taken is None else ~taken))
                    if lanes is None or (lanes & walk.everyone).any()
                ]
                inner = max((_rounds(side, walk) for side in sides), default=0.0)
                found, loading = found + max(inner - loading, 0), loading or bool(inner)
            case While() | FunctionCall():
                inner = _rounds(statement.body if isinstance(statement, While) else statement.function.body, walk)
                found, loading = found + max(inner - loading, 0), loading or bool(inner)
            case Load(access=access) | AsyncCopy(origin=access) if access.buffer.space == "global":
                found, loading = found + (not loading), True
    return found


def _imbalance(trace: KernelTrace, known: Mapping[str, Array | int], grid: tuple[int, int, int]) -> float:
    """The largest over the average number of iterations of a loop whose bounds depend on the block; 1 without one."""
    found, total = 1.0, math.prod(grid)
    ids = {str(symbol): "xyz".index(axis) for symbol, (what, axis) in trace.ids.items() if what == "block_id"}
    number = np.arange(min(total, EVERY_BLOCK), dtype=np.int64)
    blocks = {name: number // math.prod(grid[:axis]) % grid[axis] for name, axis in ids.items()}
    for loop in trace.body:
        bounds = (loop.lo, loop.hi, loop.step) if isinstance(loop, For) else ()
        names = {str(symbol) for bound in bounds for symbol in getattr(bound, "free_symbols", ())}
        if names & ids.keys() and names <= {*ids, *known}:
            given = {name: blocks[name] if name in blocks else known[name] for name in names}
            lo, hi, step = (np.asarray(b if isinstance(b, int) else evaluate(b, given)) for b in bounds)
            trips = np.broadcast_to(np.maximum(-(-(hi - lo) // step), 0), number.shape)
            found = max(found, float(trips.max()) / max(float(trips.mean()), 1e-9))
    return found


def _words(value: Value | Register) -> float:
    """32-bit registers of a value in a thread; a tile is spread over a warp."""
    if isinstance(value.width, tuple):
        return math.prod(value.width) * value.dtype.bytes / 4 / WARP
    return max((value.width or 1) * value.dtype.bytes / 4, 1)


def _registers(trace: KernelTrace) -> tuple[int, int]:
    """An estimate of a thread's registers, and the part that loops carry, which no order of instructions avoids.

    The estimate is the largest number of words that are live at once in the order of the trace, with a constant for
    addresses.
    """
    statements = list(trace.statements())
    last: dict[int, int] = {}
    for at, statement in enumerate(statements):
        for name in ("operands", "value", "operand", "a", "b", "c", "other", "expected"):
            used = getattr(statement, name, None)
            for value in used if isinstance(used, tuple) else (used,):
                if isinstance(value, Value):
                    last[value.number] = at
    live, most = 0.0, 0.0
    ends: dict[int, list[float]] = {}
    for at, statement in enumerate(statements):
        result = getattr(statement, "result", None)
        if isinstance(result, Value) and last.get(result.number, at) > at:
            live += _words(result)
            ends.setdefault(last[result.number], []).append(_words(result))
        most = max(most, live)
        live -= sum(ends.pop(at, ()))
    held = _held(trace)
    return min(int(24 + most + held), 255), int(held)


def _held(trace: KernelTrace) -> float:
    """Words of the registers that some loop reads and writes."""
    carried: dict[int, float] = {}
    for statement in trace.statements():
        if isinstance(statement, For | While):
            for inner in statements_in(statement.body):
                if isinstance(inner, Write):
                    carried[inner.register.number] = _words(inner.register)
    return sum(carried.values())


def _shared_bytes(trace: KernelTrace) -> int:
    """The bytes of all shared tiles."""
    return sum(int(tile.size) * tile.dtype.bytes for tile in trace.shared if isinstance(tile.size, int))


def with_interpreted(
    counts: LaunchCounts, kernel: Kernel, sizes: Mapping[str, int], blocks: int = BLOCKS
) -> LaunchCounts:
    """The counts with sectors, requests and wavefronts of a run of sampled blocks on real input.

    For kernels whose addresses or branches depend on data.
    """
    from lego_mlir import interp
    from lego_mlir.runtime.kernel_input import make_input

    made = make_input(kernel, sizes, 0)
    report = interp.run_kernel(kernel, made.memories, made.sizes, checks=False, blocks=blocks)
    n = max(report.blocks_run, 1)
    sites = [site for site in report.sites if site.space == "global"]
    stores = sum(site.sectors for site in sites if site.kind != "read") / n
    moved = sum(site.sectors for site in sites) / n
    return replace(
        counts,
        requests=sum(site.requests for site in sites) / n,
        sectors=moved,
        fills=min(counts.fills, moved - stores) or moved - stores,
        stores=stores,
        packed=sum(site.ideal_sectors for site in sites if site.kind != "read") / n,
        wavefronts=report.totals.wavefronts / n,
        notes=(*counts.notes, f"sectors and wavefronts of {report.blocks_run} blocks that the interpreter ran"),
    )
