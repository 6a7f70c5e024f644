"""Reductions and scans over the lanes of a warp and the threads of a block.

    total = lego.warp_reduce(v)                 v of all 32 lanes added up, in every lane
    total = lego.block_reduce(v, "max")         the largest v of the block, in every thread
    below = lego.block_scan(v, exclusive=True)  the sum of v over the threads before this one

A butterfly of shuffles reduces a warp in 5 steps, in every lane in the same order:

    lane      0    1    2    3
    xor 1    01   01   23   23
    xor 2   0123 0123 0123 0123

A block reduces its warps, keeps one value of each in shared memory, and combines these after a barrier. A scan adds the
value `d` lanes below for d = 1, 2, 4, 8, 16 (Hillis and Steele, 1986). Blocks of any size work: a partial warp combines
the lanes that exist. All threads of the warp or block must take part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Cond, Operand
from lego_mlir.errors import did_you_mean
from lego_mlir.expr.index import Index
from lego_mlir.expr.index import minimum as smaller
from lego_mlir.hardware.limits import THREADS_PER_BLOCK, WARP
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.operators import OPERATORS
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import control, warps
from lego_mlir.tracing.words.functions import where
from lego_mlir.tracing.words.scalar import Scalar, compute
from lego_mlir.tracing.words.tensor import View, declare_scratch

OPERATIONS: Final[dict[str, tuple[str, Callable[[DType], float]]]] = {
    # the operation on data, and the number that leaves the other operand as it is
    "add": ("add", lambda dtype: 0),
    "mul": ("mul", lambda dtype: 1),
    "min": ("minimum", lambda dtype: float("inf") if dtype.is_float else dtype.span[1]),
    "max": ("maximum", lambda dtype: -float("inf") if dtype.is_float else dtype.span[0]),
    "and": ("and", lambda dtype: dtype.span[1] if dtype.is_unsigned else -1),
    "or": ("or", lambda dtype: 0),
    "xor": ("xor", lambda dtype: 0),
}


@dataclass(frozen=True, slots=True)
class Combining:
    """An operation on data of one element type, and its neutral number."""

    name: str
    neutral: float

    def __call__(self, a: Operand, b: Operand) -> Scalar:
        return compute(self.name, a, b)


def warp_reduce(value: Scalar, op: str = "add", width: int = WARP) -> Scalar:
    """The values of all lanes of the warp combined, in every lane; of each group of `width` lanes for a width below 32.

    `op` is "add", "mul", "min", "max", "and", "or" or "xor". Floats are combined pairwise, in the same order in every
    lane.
    """
    tracer = current("lego.warp_reduce")
    combine = combining(tracer, "lego.warp_reduce", value, op)
    distances = _distances(tracer, "lego.warp_reduce", width)
    value = _kept(value)
    if _warps_are_full(tracer):
        for distance in distances:
            value = combine(value, warps.shuffle_xor(value, distance))
        return value
    lane, thread = warps.lane_id, warps.linear_thread(tracer)
    for distance in distances:
        there = (lane % width + distance < width) & (thread + distance < warps.threads(tracer))
        other = warps.shuffle(value, where(there, lane + distance, lane))
        value = where(there, combine(value, other), value)
    return warps.shuffle(value, lane - lane % width)


def warp_scan(value: Scalar, op: str = "add", *, exclusive: bool = False, width: int = WARP) -> Scalar:
    """The values of the lanes up to this one combined; without this lane's own where `exclusive`.

    The first lane of an exclusive scan has the neutral number: 0 for "add".
    """
    tracer = current("lego.warp_scan")
    combine = combining(tracer, "lego.warp_scan", value, op)
    lane, value = warps.lane_id % width, _kept(value)
    for distance in _distances(tracer, "lego.warp_scan", width):
        other = warps.shuffle_up(value, distance, width)
        value = where(lane >= distance, combine(other, value), value)
    return _shifted(value, combine, lane, width) if exclusive else value


def block_reduce(value: Scalar, op: str = "add") -> Scalar:
    """The values of all threads of the block combined, in every thread. It contains barriers.

    Raises TraceError in a branch or loop that depends on the thread.
    """
    tracer = current("lego.block_reduce")
    combine = combining(tracer, "lego.block_reduce", value, op)
    require_uniform(tracer, "lego.block_reduce")
    total = warp_reduce(value, op)
    parts = _Parts.stored(tracer, total, warps.lane_id < 1, combine)
    if parts is None:
        return total
    if parts.width is not None:
        return warp_reduce(parts.of_lane(), op, parts.width)
    return parts.combined(parts.count)


def block_scan(value: Scalar, op: str = "add", *, exclusive: bool = False) -> Scalar:
    """The values of the threads up to this one combined; without this thread's own where `exclusive`.

    Threads are numbered x fastest. It contains barriers. Raises TraceError in a branch or loop that depends on the
    thread.
    """
    tracer = current("lego.block_scan")
    combine = combining(tracer, "lego.block_scan", value, op)
    require_uniform(tracer, "lego.block_scan")
    inclusive = warp_scan(value, op)
    thread = warps.linear_thread(tracer)
    last = (warps.lane_id >= WARP - 1) | (thread >= warps.threads(tracer) - 1)
    parts = _Parts.stored(tracer, inclusive, last, combine)
    own = _shifted(inclusive, combine, warps.lane_id, WARP) if exclusive else inclusive
    if parts is None:
        return own
    if parts.width is not None:
        below = warp_scan(parts.of_lane(), op, exclusive=True, width=parts.width)
        return combine(warps.shuffle(below, warps.warp_id, parts.width), own)
    return combine(parts.combined(warps.warp_id, start=True), own)


@dataclass(frozen=True, slots=True)
class _Parts:
    """One value for each warp, in shared memory, after a barrier.

    `width` is the number of warps rounded up to a power of two where all warps are full, and None elsewhere: a partial
    warp may have fewer lanes than the block has warps, so that each thread combines the values one by one.
    """

    tile: View
    first: Index | int
    count: Index | int
    width: int | None
    combine: Combining

    @classmethod
    def stored(cls, tracer: Tracer, value: Scalar, chosen: Cond, combine: Combining) -> _Parts | None:
        """The values of the chosen lanes, one of each warp; None for a block of one warp."""
        threads = warps.threads(tracer)
        count = (threads + WARP - 1) // WARP
        if isinstance(count, int) and count == 1:
            return None
        most = count if isinstance(count, int) else THREADS_PER_BLOCK // WARP
        tile, first = declare_scratch(tracer, value.dtype, most)
        if tracer.depth:
            control.barrier()  # the previous iteration has been read
        with control.when(chosen):
            tile[first + warps.warp_id] = value
        control.barrier()
        width = 1 << (most - 1).bit_length() if _warps_are_full(tracer) else None
        return cls(tile, first, count, width, combine)

    def of_lane(self) -> Scalar:
        """The value of the warp that this lane represents in each group of `width` lanes."""
        assert self.width is not None and isinstance(self.count, int)
        number = warps.lane_id % self.width
        value = self.tile[self.first + smaller(number, self.count - 1)]
        return value if self.count == self.width else where(number < self.count, value, self.combine.neutral)

    def combined(self, end: Index | int, *, start: bool = False) -> Scalar:
        """The values of the warps before `end`, in order; beginning with the neutral number where `start` is set."""
        first = self.combine.neutral if start else self.tile[self.first]
        total = control.register(self.tile.dtype, first)
        for warp in control.loop(0 if start else 1, end):
            total.set(self.combine(total, self.tile[self.first + warp]))
        return total.get()


def _shifted(value: Scalar, combine: Combining, lane: Index, width: int) -> Scalar:
    """The value of the lane below, and the neutral number in the first lane."""
    return where(lane >= 1, warps.shuffle_up(value, 1, width), combine.neutral)


def _kept(value: Scalar) -> Scalar:
    """A value that a later change of a register does not affect."""
    return Scalar(value.entry)


def _warps_are_full(tracer: Tracer) -> bool:
    threads = warps.threads(tracer)
    return isinstance(threads, int) and threads % WARP == 0


def _distances(tracer: Tracer, called: str, width: int) -> list[int]:
    """1, 2, 4, .. below the width. Raises TraceError for a width that is not a power of two of at most 32."""
    if type(width) is not int or not 1 <= width <= WARP or width & (width - 1):
        raise tracer.error(f"{called}: width must be 1, 2, 4, 8, 16 or {WARP}, got {width!r}")
    return [1 << step for step in range(width.bit_length() - 1)]


def combining(tracer: Tracer, called: str, value: Operand, op: str, *, vectors: bool = False) -> Combining:
    """An operation by its word. Raises TraceError for another word, and for a value that it does not combine."""
    if not isinstance(value, Scalar):
        raise tracer.error(f"{called} takes data of a kernel, got {value!r}; convert an index, such as lego.i32(i)")
    if (value.width is not None and not vectors) or value.dtype.family == "bool":
        raise tracer.error(f"{called} takes one number of each thread, got {value!r}")
    if op not in OPERATIONS:
        raise tracer.error(
            f"{called}: no operation {op!r}{did_you_mean(str(op), OPERATIONS)}; there are {', '.join(OPERATIONS)}"
        )
    name, neutral = OPERATIONS[op]
    if value.dtype.is_float and not OPERATORS[name].floats:
        raise tracer.error(f"{called}: {op} is not defined for {value.dtype}; it combines integers")
    return Combining(name, neutral(value.dtype))


def require_uniform(tracer: Tracer, called: str) -> None:
    """Raise TraceError in a branch or loop that threads of a block may take differently."""
    thread_ids = {symbol for symbol, (kind, _) in tracer.ids.items() if kind == "thread_id"}
    for condition in tracer.path[tracer.path_of_role :]:
        if condition.free_symbols & thread_ids:
            raise tracer.error(
                f"{called} under the condition {condition}, which depends on the thread: all threads of the block must "
                "reach it, since it contains barriers; move it out of the branch, and give the other threads a value "
                "that does not count, such as lego.where(condition, v, 0)"
            )
