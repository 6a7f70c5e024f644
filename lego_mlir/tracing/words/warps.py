"""Warps: the 32 consecutive threads that execute together, and how they exchange values without shared memory.

    lego.lane_id, lego.warp_id            linear thread % 32 and linear thread // 32, x fastest
    lego.group_id                         the group of warps of a role, `warp_roles`
    lego.shuffle(v, lane)                 the value of a lane
    lego.shuffle_up(v, d)                 of the lane d below; the lowest d lanes keep theirs
    lego.shuffle_down(v, d)               of the lane d above; the highest d lanes keep theirs
    lego.shuffle_xor(v, m)                of lane ^ m
    lego.warp_any(c), warp_all(c)         whether a condition holds in some lane, in all lanes
    lego.warp_ballot(c)                   the lanes in which it holds, as bits
    lego.match_any(v)                     the lanes with the same integer, as bits
    lego.activemask()                     the lanes that execute this together, as bits
    lego.warp_sync()                      all lanes arrive before any continues, and see each other's stores

With a `width` of 1, 2, 4, .. 16 the lanes form groups of that many, which exchange values only among themselves. A
distance that reaches no lane of the group leaves a lane its own value, also where hardware takes it modulo 32. All
threads of a warp take part in each of these operations: in a branch that some lanes do not take, the result is
undefined. The interpreter reports such lanes. Shuffles, votes and matches take `members`, the lanes that take part, as
bits: in a branch `lego.activemask()`. The last warp of a block may be partial; a lane past its end has no value. (PTX
ISA, "shfl.sync", "vote.sync", "bar.warp.sync".)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final, cast

import sympy

from lego_mlir.aliases import Expr, Operand
from lego_mlir.expr.index import Condition, Index, PerElement, as_expr, is_symbolic, where
from lego_mlir.expr.nodes import Le, Lt
from lego_mlir.expr.verdict import Proved
from lego_mlir.hardware.limits import WARP
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.tracing.trace.data_ranges import SHUFFLE_AMONG
from lego_mlir.tracing.trace.dtypes import i1, i32, i64, u8, u16, u32
from lego_mlir.tracing.trace.trace import Constant, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.bitcasts import bitcast
from lego_mlir.tracing.words.scalar import Scalar, as_value, convert, select, vector


class ThreadNumber(Index):
    """A number of the thread in its block, an index that is known inside a kernel: its lane or its warp."""

    __slots__ = ("_written",)
    _written: str

    def __init__(self, written: str) -> None:
        self._set(_written=written)

    @property
    def expr(self) -> Expr:
        """The number as an expression of the thread's ids."""
        tracer = current(self._written)
        return _NUMBERS[self._written](tracer).expr

    def _arguments(self) -> tuple[str]:
        return (self._written,)

    def __repr__(self) -> str:
        return self._written


lane_id = ThreadNumber("lego.lane_id")
"""The number of this thread in its warp, 0 to 31: the linear thread modulo 32, x fastest. PTX: %laneid."""
warp_id = ThreadNumber("lego.warp_id")
"""The number of this thread's warp in its block, the linear thread divided by 32; in a role, in its group."""
group_id = ThreadNumber("lego.group_id")
"""The number of this thread's group in its role, `with lego.warps(first, end, groups=..)`; 0 elsewhere."""


def linear_thread(tracer: Tracer) -> Index:
    """The number of the thread in its block, x fastest, as the hardware forms warps; in a role, in its group.

    The remainder, which is the same, has the range of the group's threads, or of a power of two of them.
    """
    linear, role = thread_of_block(tracer), tracer.role
    if role is None:
        return linear
    span = 1 << (role.warps * WARP - 1).bit_length()
    return (linear - role.first * WARP % span) % span


def group_of_role(tracer: Tracer) -> Index:
    """The number of this thread's group in its role."""
    role = tracer.role
    if role is None or role.groups == 1:
        return Index(0)
    return (thread_of_block(tracer) - role.first * WARP) // (role.warps * WARP) % role.groups


def thread_of_block(tracer: Tracer) -> Index:
    """The number of the thread in its block, x fastest."""
    axes = range(len(tracer.block))
    ids = [Index(tracer.id_symbol("thread_id", axis)) for axis in axes]
    return reduce(lambda inner, axis: ids[axis] + tracer.block[axis] * inner, reversed(axes[:-1]), ids[-1])


_NUMBERS: Final[dict[str, Callable[[Tracer], Index]]] = {
    "lego.lane_id": lambda tracer: linear_thread(tracer) % WARP,
    "lego.warp_id": lambda tracer: linear_thread(tracer) // WARP,
    "lego.group_id": group_of_role,
}


def threads(tracer: Tracer) -> SizeLike:
    """The number of threads of a block, or of a role's group: an int, or an index where the block is symbolic."""
    if tracer.role is not None:
        return tracer.role.warps * WARP
    return reduce(lambda a, b: a * b, tracer.block)


def shuffle(value: Scalar, lane: Operand, width: int = WARP, members: Scalar | None = None) -> Scalar:
    """The value of a lane of the warp, or of the group of `width` lanes; a lane past its end wraps around.

    `value` is data of any type, also a vector; `lane` an int, an index or an i32. `members` are the lanes that take
    part, as the bits of a u32, where these are not all: each of them has the same, and reads one of them.
    """
    tracer = current("lego.shuffle")
    _require_width(tracer, "lego.shuffle", width)
    wrapped = lane & (width - 1) if isinstance(lane, Scalar) else Index(lane) % width
    return _shuffled(tracer, "idx", value, wrapped, width, members)


def shuffle_up(value: Scalar, distance: Operand, width: int = WARP, members: Scalar | None = None) -> Scalar:
    """The value of the lane `distance` below; the first lanes of a group, which have none, keep their own.

    A distance outside of 0 .. width - 1 reaches no lane of the group: all keep their own. `members` as in `shuffle`.
    """
    return _moved(current("lego.shuffle_up"), "up", value, distance, width, members)


def shuffle_down(value: Scalar, distance: Operand, width: int = WARP, members: Scalar | None = None) -> Scalar:
    """The value of the lane `distance` above; the last lanes of a group, which have none, keep their own.

    Distances outside of 0 .. width - 1 are as for `shuffle_up`, `members` as in `shuffle`.
    """
    return _moved(current("lego.shuffle_down"), "down", value, distance, width, members)


def shuffle_xor(value: Scalar, mask: Operand, width: int = WARP, members: Scalar | None = None) -> Scalar:
    """The value of the lane whose number differs in the bits of `mask`.

    With a mask outside of 0 .. width - 1, which leads to another group, all lanes keep their own. `members` as in
    `shuffle`.
    """
    return _moved(current("lego.shuffle_xor"), "xor", value, mask, width, members)


def warp_any(condition: Operand, members: Scalar | None = None) -> Scalar:
    """Whether a condition holds in some lane of the warp, as an i1; of a tile, for some element that the warp holds.

    `members` are the lanes that take part, as the bits of a u32, where these are not all: each of them has the same.
    """
    return _voted(current("lego.warp_any"), "any", condition, members)


def warp_all(condition: Operand, members: Scalar | None = None) -> Scalar:
    """Whether a condition holds in all lanes of the warp, as an i1; of a tile, for all elements that the warp holds.

    `members` as in `warp_any`.
    """
    return _voted(current("lego.warp_all"), "all", condition, members)


def warp_ballot(condition: Operand, members: Scalar | None = None) -> Scalar:
    """A u32 whose bit k tells whether the condition holds in lane k of the warp, of its `members` as in `warp_any`."""
    return _voted(current("lego.warp_ballot"), "ballot", condition, members)


def activemask() -> Scalar:
    """A u32 whose bit k tells whether lane k executes this together with this lane, whose own bit is set.

    In a branch they are some of the lanes that take it: hardware need not run all of these together, and a CPU runs
    each alone. Use it where any such set is right, as for atomic updates that the lanes of a set combine; all lanes of
    a branch are `warp_ballot(condition)` in front of it. (PTX ISA, "activemask".)
    """
    tracer = current("lego.activemask")
    result = tracer.value(u32)
    none = (("op_bundle_sizes", "array<i32>"), ("operandSegmentSizes", "array<i32: 0, 0>"))
    tracer.append(MlirOperation((result,), INTRINSIC, (), (("intrin", f'"{ACTIVE_LANES}"'), *none), tracer.here()))
    return Scalar(result)


def match_any(value: Scalar, members: Scalar | None = None) -> Scalar:
    """A u32 whose bit k tells whether lane k of the warp has the same integer as this lane.

    `members` as in `warp_any`.
    """
    tracer = current("lego.match_any")
    if not isinstance(value, Scalar) or value.width is not None or value.dtype.family != "int":
        raise tracer.error(f"lego.match_any takes one integer, got {value!r}; convert it, such as x.to(lego.i32)")
    word = convert(value, i32 if value.dtype.bits <= i32.bits else i64)
    result = tracer.value(u32)
    operands = (_members(tracer, "lego.match_any", members), tracer.use(word.entry))
    attributes = (("kind", "#nvvm<match_sync_kind any>"),)
    tracer.append(MlirOperation((result,), "nvvm.match.sync", operands, attributes, tracer.here()))
    return Scalar(result)


def warp_sync() -> None:
    """All lanes of the warp arrive before any continues; stores before it are visible to them after it."""
    tracer = current("lego.warp_sync")
    tracer.append(MlirOperation((), "nvvm.bar.warp.sync", (_whole_warp(tracer),), (), tracer.here()))


INTRINSIC: Final = "llvm.call_intrinsic"
ACTIVE_LANES: Final = "llvm.nvvm.activemask"
_KINDS: Final = {"idx": "idx", "up": "up", "down": "down", "xor": "bfly"}
_PATTERNS: Final = {8: u8, 16: u16}
_CALLED: Final = {"idx": "shuffle", "up": "shuffle_up", "down": "shuffle_down", "xor": "shuffle_xor"}


def _moved(tracer: Tracer, mode: str, value: Operand, distance: Operand, width: int, members: Scalar | None) -> Scalar:
    """A shuffle by a distance: outside of the group it is 0, where hardware would take it modulo 32."""
    called = f"lego.{_CALLED[mode]}"
    _require_width(tracer, called, width)
    if isinstance(distance, Scalar):
        inside = (distance < width) if distance.dtype.is_unsigned else ((distance >= 0) & (distance < width))
        return _shuffled(tracer, mode, value, select(inside, distance, 0), width, members)
    within = sympy.And(Le(0, as_expr(distance)), Lt(as_expr(distance), width))
    if not isinstance(tracer.prove(within), Proved):
        distance = where(Condition(within), distance, 0)
    return _shuffled(tracer, mode, value, distance, width, members)


def _shuffled(tracer: Tracer, mode: str, value: Operand, offset: Operand, width: int, members: Scalar | None) -> Scalar:
    called = f"lego.{_CALLED[mode]}"
    _require_width(tracer, called, width)
    if not isinstance(value, Scalar):
        raise tracer.error(f"{called} takes data of a kernel, got {value!r}; convert an index, such as lego.i32(i)")
    if value.width is not None:
        return vector(*(_shuffled(tracer, mode, element, offset, width, members) for element in value))
    if members is not None:
        return _shuffle_among(tracer, mode, value, offset, width, members)
    return _one_shuffle(tracer, mode, value, offset, width)


def shuffle_word(mode: str, value: Scalar, offset: Operand) -> Scalar:
    """A shuffle in which a vector of at most 32 bits moves as one word, where `shuffle` moves its elements."""
    return _one_shuffle(current("a shuffle"), mode, value, offset, WARP)


def _one_shuffle(tracer: Tracer, mode: str, value: Scalar, offset: Operand, width: int) -> Scalar:
    given = tracer.use(value.entry)
    distance = as_value(convert(offset, i32) if is_symbolic(offset) else offset, i32)
    span = _constant(tracer, width)
    result, valid = tracer.value(value.dtype, value.width), tracer.value(i1)
    attributes = (("mode", f"#gpu<shuffle_mode {mode}>"),)
    tracer.append(MlirOperation((result, valid), "gpu.shuffle", (given, distance, span), attributes, tracer.here()))
    return Scalar(result)


def _shuffle_among(tracer: Tracer, mode: str, value: Scalar, offset: Operand, width: int, members: Scalar) -> Scalar:
    """A shuffle of words of 32 bits among some lanes. PTX ISA, "shfl.sync": its membermask and its operand c."""
    dtype = value.dtype
    if dtype.bits == u32.bits:
        return _word_among(tracer, mode, value, offset, width, members)
    if dtype.family == "int" and dtype.bits < i32.bits:
        wide = u32 if dtype.is_unsigned else i32
        return cast(Scalar, _word_among(tracer, mode, convert(value, wide), offset, width, members).to(dtype))
    if dtype.family == "bool":
        return cast(Scalar, _word_among(tracer, mode, convert(value, i32), offset, width, members) != 0)
    if dtype.bits < u32.bits:
        pattern = _shuffle_among(tracer, mode, bitcast(value, _PATTERNS[dtype.bits]), offset, width, members)
        return cast(Scalar, bitcast(pattern, dtype))
    words = [_word_among(tracer, mode, word, offset, width, members) for word in bitcast(value, u32)]
    return cast(Scalar, bitcast(vector(*words), dtype))


def _word_among(tracer: Tracer, mode: str, value: Scalar, offset: Operand, width: int, members: Scalar) -> Scalar:
    """A word of a lane among some, which `gpu.shuffle` has no operand for."""
    lanes = _members(tracer, f"lego.{_CALLED[mode]}", members)
    distance = as_value(convert(offset, i32) if is_symbolic(offset) else offset, i32)
    clamp = _constant(tracer, (WARP - width) << 8 | (0 if mode == "up" else WARP - 1))
    result = tracer.value(value.dtype)
    attributes = (("kind", f"#nvvm<shfl_kind {_KINDS[mode]}>"),)
    operands = (lanes, tracer.use(value.entry), distance, clamp)
    tracer.append(MlirOperation((result,), SHUFFLE_AMONG, operands, attributes, tracer.here()))
    return Scalar(result)


def _voted(tracer: Tracer, kind: str, condition: Operand, members: Scalar | None) -> Scalar:
    if isinstance(condition, PerElement):
        if members is not None:
            raise tracer.error(f"lego.warp_{kind} of a tile is a vote of all lanes; leave out members")
        return condition.vote(kind)
    if isinstance(condition, Scalar) and condition.dtype.family != "bool":
        raise tracer.error(f"lego.warp_{kind} takes a condition, got {condition!r}; compare it with a number")
    if not isinstance(condition, Scalar | Condition | bool):
        condition = Condition(condition)
    holds = as_value(condition, i1)
    result = tracer.value(u32 if kind == "ballot" else i1)
    operands = (_members(tracer, f"lego.warp_{kind}", members), holds)
    attributes = (("kind", f"#nvvm<vote_sync_kind {kind}>"),)
    tracer.append(MlirOperation((result,), "nvvm.vote.sync", operands, attributes, tracer.here()))
    return Scalar(result)


def _members(tracer: Tracer, called: str, members: object) -> Value:
    """The mask of the lanes that take part."""
    if members is None:
        return _whole_warp(tracer)
    if not isinstance(members, Scalar) or members.dtype is not u32 or members.width is not None:
        raise tracer.error(f"{called}: members are the bits of a u32, such as lego.activemask(), got {members!r}")
    return tracer.use(members.entry)


def _whole_warp(tracer: Tracer) -> Value:
    """The mask of all lanes; hardware disregards those past the end of the block."""
    return _constant(tracer, -1)


def _constant(tracer: Tracer, number: int) -> Value:
    result = tracer.value(i32)
    tracer.append(Constant(result, number, tracer.here()))
    return result


def _require_width(tracer: Tracer, called: str, width: int) -> None:
    if type(width) is not int or not 1 <= width <= WARP or width & (width - 1):
        raise tracer.error(f"{called}: width must be 1, 2, 4, 8, 16 or {WARP}, got {width!r}")
