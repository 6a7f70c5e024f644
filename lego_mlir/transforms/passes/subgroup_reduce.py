"""Lower `gpu.subgroup_reduce` to shuffles; upstream does so for AMD's hardware and single NVIDIA instructions only.

Each lane of a full warp exchanges values with the lane at distance 1, 2, 4 .. (a butterfly), so that after log2(n)
steps each lane holds the result:

    %s, %v = gpu.shuffle xor %x, 1, 32
    %y = arith.addf %x, %s                and so on with %y and 2

The last warp of a block may be partial. There the first lane of each cluster gathers the values of the lanes that
exist, and the others read the result from it. A shuffle moves 32 bits: narrower values are extended, 64-bit values
move in two halves.

Of 32-bit integers over whole warps it is one instruction, `redux.sync`:

    %y = gpu.subgroup_reduce add %x : (i32) -> i32        ->        %y = nvvm.redux.sync add %x, %all : i32 -> i32

It exists from sm_80 on (PTX ISA, "redux.sync"). Clusters, other types and the warps of a block that the warp's size
does not divide take the shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Type, Value
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.kernel_facts import facts_of
from lego_mlir.transforms.modules import ModuleError, walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.lower_shuffles import in_words
from lego_mlir.transforms.passes.operations import bits, producer

REDUCE: Final = "gpu.subgroup_reduce"
_FLOATS: Final = {"add": "arith.addf", "mul": "arith.mulf"}
_INTEGERS: Final = {
    "add": "arith.addi",
    "mul": "arith.muli",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
}
_LANE_DEPENDENT: Final = (
    "gpu.thread_id",
    "gpu.lane_id",
    "memref.load",
    "vector.load",
    "gpu.shuffle",
    "scf.for",
    "scf.while",
)
_AXES: Final = "xyz"


@dataclass(frozen=True, slots=True)
class LowerSubgroupReduce(FunctionPass):
    """Replaces the reductions. Raises ModuleError where lanes may not take part in one."""

    name = "lego-lower-subgroup-reduce"

    def run_on(self, function: Op) -> None:
        reductions = [op for op in walk(function) if op.name == REDUCE]
        if not reductions:
            return
        block = facts_of(function).block
        is_full = block is not None and prod(block) % WARP == 0
        for reduction in reductions:
            check_converged(reduction)
            with reduction.location, bindings.load().ir.InsertionPoint(reduction):
                reduction.results[0].replace_all_uses_with(Reduction.of(reduction).emit(is_full))
            reduction.erase()


@dataclass(frozen=True)
class Reduction:
    """A reduction over clusters of `size` lanes, `stride` apart, emitted at the insertion point."""

    value: Value
    kind: str
    size: int
    stride: int

    @classmethod
    def of(cls, operation: Op) -> Reduction:
        """The reduction that an operation describes."""
        kind = str(operation.attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")
        size, stride = (
            _integer(operation, name, default) for name, default in (("cluster_size", WARP), ("cluster_stride", 1))
        )
        if size * stride > WARP:
            raise ModuleError(
                f"{operation.location}: clusters of {size} lanes with stride {stride} reach past the {WARP} lanes of a "
                "warp"
            )
        return cls(operation.operands[0], kind, size, stride)

    def emit(self, is_full: bool) -> Value:
        """The result; a vector is reduced element by element."""
        ir, type_ = bindings.load().ir, self.value.type
        if not isinstance(type_, ir.VectorType):
            return self._element(self.value, is_full)
        if type_.rank != 1:
            raise ModuleError(f"{REDUCE} of {type_}: reduce a number, or a vector of one dimension")
        elements = []
        for lane in range(type_.shape[0]):
            position = {"static_position": ir.DenseI64ArrayAttr.get([lane])}
            elements.append(
                self._element(_make("vector.extract", type_.element_type, self.value, attributes=position), is_full)
            )
        return _make("vector.from_elements", type_, *elements)

    def _element(self, value: Value, is_full: bool) -> Value:
        distances = [1 << step for step in range(self.size.bit_length() - 1)]
        if is_full:
            for distance in distances:
                value = self._combined(value, _shuffled(value, "xor", _number(distance * self.stride)))
            return value
        return self._gathered(value, distances)

    def _gathered(self, value: Value, distances: list[int]) -> Value:
        """For partial warps: gather in the first lane of the cluster, then read from there."""
        thread, threads = _thread()
        lane = _make("arith.remui", thread.type, thread, _number(WARP))
        place = _make(
            "arith.remui", lane.type, _make("arith.divui", lane.type, lane, _number(self.stride)), _number(self.size)
        )
        for distance in distances:
            reach = _number(distance * self.stride)
            is_inside = _compared(_make("arith.addi", place.type, place, _number(distance)), _number(self.size))
            is_there = _compared(_make("arith.addi", thread.type, thread, reach), threads)
            both = _make("arith.andi", is_inside.type, is_inside, is_there)
            source = _make("arith.select", lane.type, both, _make("arith.addi", lane.type, lane, reach), lane)
            combined = self._combined(value, _shuffled(value, "idx", source))
            value = _make("arith.select", value.type, both, combined, value)
        first = _make("arith.subi", lane.type, lane, _make("arith.muli", place.type, place, _number(self.stride)))
        return _shuffled(value, "idx", first)

    def _combined(self, a: Value, b: Value) -> Value:
        table = _FLOATS if str(a.type) in ("f16", "bf16", "f32", "f64") else _INTEGERS
        return _make(table.get(self.kind, f"arith.{self.kind}"), a.type, a, b)


def _make(name: str, type_: Type, *operands: Value, attributes: dict[str, Attribute] | None = None) -> Value:
    return bindings.load().ir.Operation.create(name, [type_], operands, attributes=attributes or {}).results[0]


def _integer(operation: Op, name: str, default: int) -> int:
    ir = bindings.load().ir
    return int(ir.IntegerAttr(operation.attributes[name]).value) if name in operation.attributes else default


def _number(n: int, width: int = 32) -> Value:
    attribute = bindings.load().ir.IntegerAttr.get(bits(width), n)
    return _make("arith.constant", bits(width), attributes={"value": attribute})


def _compared(a: Value, b: Value) -> Value:
    ir = bindings.load().ir
    return _make("arith.cmpi", bits(1), a, b, attributes={"predicate": ir.Attribute.parse("6 : i64")})  # ult


def _thread() -> tuple[Value, Value]:
    """The linear thread index in the block, x fastest, as hardware forms warps; and the threads per block."""
    ir = bindings.load().ir
    thread, threads = _number(0), _number(1)
    for axis in reversed(_AXES):
        dimension = {"dimension": ir.Attribute.parse(f"#gpu<dim {axis}>")}
        own, extent = (
            _make("arith.index_cast", bits(32), _make(name, ir.IndexType.get(), attributes=dimension))
            for name in ("gpu.thread_id", "gpu.block_dim")
        )
        thread = _make("arith.addi", bits(32), _make("arith.muli", bits(32), thread, extent), own)
        threads = _make("arith.muli", bits(32), threads, extent)
    return thread, threads


def _shuffled(value: Value, mode: str, offset: Value) -> Value:
    """The value of another lane, in words of 32 bits."""
    return in_words(value, lambda word: _word(word, mode, offset))


def _word(word: Value, mode: str, offset: Value) -> Value:
    ir = bindings.load().ir
    operation = ir.Operation.create(
        "gpu.shuffle", [bits(32), bits(1)], [word, offset, _number(WARP)],
        attributes={"mode": ir.Attribute.parse(f"#gpu<shuffle_mode {mode}>")},
    )  # fmt: skip
    return operation.results[0]


def check_converged(reduction: Op) -> None:
    """Raise ModuleError in a branch or loop in which lanes may diverge: a shuffle would wait for the others."""
    if "uniform" in reduction.attributes:
        return
    current = reduction.parent.operation
    while current.name != "gpu.func":
        if current.name == "scf.while" or any(
            map(_depends_on_lane, current.operands[: 1 if current.name == "scf.if" else 3])
        ):
            raise ModuleError(
                f"{reduction.location}: {REDUCE} inside {current.name} that lanes of a warp may take differently; move "
                "it out of there, or mark it `uniform` where all lanes of a warp take it alike"
            )
        current = current.parent.operation


def _depends_on_lane(value: Value) -> bool:
    """Whether a value may differ between the lanes of a warp: from thread ids, memory or loops."""
    source = producer(value)
    if source is not None:
        return source.name in _LANE_DEPENDENT or any(map(_depends_on_lane, source.operands))
    region = value.owner.owner.operation.name
    return region != "gpu.func" and not (region == "scf.for" and value.arg_number == 0)


KINDS: Final = {
    "add": "add", "and": "and", "or": "or", "xor": "xor",
    "minsi": "min", "maxsi": "max", "minui": "umin", "maxui": "umax",
}  # fmt: skip
"""Reductions of `gpu.subgroup_reduce` -> of `nvvm.redux.sync`."""


@dataclass(frozen=True, slots=True)
class LowerWarpReductions(FunctionPass):
    """Replaces the reductions, where the target has the instruction."""

    redux: bool = False

    name = "lego-lower-warp-reductions"

    def run_on(self, function: Op) -> None:
        block = facts_of(function).block
        if not self.redux or block is None or prod(block) % WARP:
            return
        ir = bindings.load().ir
        for operation in [op for op in walk(function) if op.name == REDUCE]:
            reduction = Reduction.of(operation)
            if str(reduction.value.type) != "i32" or reduction.size != WARP or reduction.kind not in KINDS:
                continue
            check_converged(operation)
            kind = {"kind": ir.Attribute.parse(f"#nvvm<reduction_kind {KINDS[reduction.kind]}>")}
            with operation.location, ir.InsertionPoint(operation):
                word = reduction.value.type
                every = ir.Operation.create(
                    "arith.constant", [word], attributes={"value": ir.IntegerAttr.get(word, -1)}
                ).results[0]
                made = ir.Operation.create("nvvm.redux.sync", [word], [reduction.value, every], attributes=kind)
            operation.results[0].replace_all_uses_with(made.results[0])
            operation.erase()
