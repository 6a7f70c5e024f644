"""Lower the shuffles that upstream does not: values of other sizes than 32 bits, and groups smaller than a warp.

The hardware moves words of 32 bits. A narrower value is extended to a word, a 64-bit value moves in two words:

    gpu.shuffle xor %v, %d, %w : f16      bitcast i16, extui i32, shuffle, trunci i16, bitcast f16
    gpu.shuffle xor %v, %d, %w : i64      shuffle of the low and of the high word
    gpu.shuffle xor %v, %d, %w : vector<2xf16>     bitcast i32, shuffle, bitcast vector<2xf16>

For groups of `width` lanes upstream names only the first `width` lanes of the warp as members, so that the lanes of
other groups wait for none. Here all 32 lanes are members, and the clamp operand of `shfl.sync` holds the group's size
(PTX ISA, "shfl.sync"): (32 - width) << 8, and 31 in its low bits, 0 for `up`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Type, Value
from lego_mlir.hardware.limits import WARP
from lego_mlir.transforms.kernel_facts import element_bytes
from lego_mlir.transforms.modules import ModuleError, walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.operations import bits, create, producer

SHUFFLE: Final = "gpu.shuffle"
_FLOATS: Final = ("f16", "bf16", "f32", "f64")
_MODES: Final = {"xor": "bfly", "down": "down", "up": "up", "idx": "idx"}


@dataclass(frozen=True, slots=True)
class LowerShuffles(FunctionPass):
    """Replaces the shuffles that upstream cannot lower."""

    name = "lego-lower-shuffles"

    def run_on(self, function: Op) -> None:
        for operation in [op for op in walk(function) if op.name == SHUFFLE]:
            value, _, width = operation.operands
            if str(value.type) in ("i32", "f32") and _number_of(width) == WARP:
                continue
            with operation.location, bindings.load().ir.InsertionPoint(operation):
                moved, valid = _lowered(operation)
            operation.results[0].replace_all_uses_with(moved)
            operation.results[1].replace_all_uses_with(valid)
            operation.erase()


def in_words(value: Value, move: Callable[[Value], Value]) -> Value:
    """A value moved by words of 32 bits; `move` moves one."""
    ir, type_ = bindings.load().ir, value.type
    if isinstance(type_, ir.VectorType):
        return _vector_in_words(value, move)
    width = 1 if str(type_) == "i1" else 8 * element_bytes(type_)
    is_float = str(type_) in _FLOATS
    pattern = _make("arith.bitcast", bits(width), value) if is_float else value
    if width < WARP:
        pattern = _make("arith.trunci", bits(width), move(_make("arith.extui", bits(32), pattern)))
    elif width == WARP:
        pattern = move(pattern)
    else:
        half = _constant(32, 64)
        upper = _make("arith.shrui", bits(64), pattern, half)
        low, high = (
            _make("arith.extui", bits(64), move(_make("arith.trunci", bits(32), part))) for part in (pattern, upper)
        )
        pattern = _make("arith.ori", bits(64), low, _make("arith.shli", bits(64), high, half))
    return _make("arith.bitcast", type_, pattern) if is_float else pattern


def _vector_in_words(value: Value, move: Callable[[Value], Value]) -> Value:
    """A vector of at most 32 bits as one word."""
    ir, type_ = bindings.load().ir, value.type
    width = 8 * element_bytes(type_.element_type) * type_.shape[0]
    if len(type_.shape) != 1 or width > WARP or width & (width - 1):
        raise ModuleError(f"a shuffle of {type_}: more than one word of {WARP} bits; shuffle its elements one by one")
    one = ir.VectorType.get([1], bits(width))
    position = {"static_position": "array<i64: 0>"}
    word = create("vector.extract", [bits(width)], [_make("vector.bitcast", one, value)], position).results[0]
    return _make("vector.bitcast", type_, _make("vector.broadcast", one, in_words(word, move)))


def _lowered(operation: Op) -> tuple[Value, Value]:
    ir = bindings.load().ir
    value, offset, width = operation.operands
    mode = str(operation.attributes["mode"]).removeprefix("#gpu<shuffle_mode ").removesuffix(">")
    low = _constant(0 if mode == "up" else WARP - 1, 32)
    spare = _make("arith.subi", width.type, _constant(WARP, 32), width)
    clamp = _make("arith.ori", width.type, _make("arith.shli", width.type, spare, _constant(8, 32)), low)
    attributes = {"kind": f"#nvvm<shfl_kind {_MODES[mode]}>", "return_value_and_is_valid": "unit"}
    pair = ir.Type.parse("!llvm.struct<(i32, i1)>")
    found: list[Value] = []

    def move(word: Value) -> Value:
        both = create("nvvm.shfl.sync", [pair], [_constant(-1, 32), word, offset, clamp], attributes).results[0]
        found.append(both)
        return _part(both, 0, bits(32))

    moved = in_words(value, move)
    return moved, _part(found[0], 1, bits(1))


def _part(pair: Value, number: int, type_: Type) -> Value:
    return create("llvm.extractvalue", [type_], [pair], {"position": f"array<i64: {number}>"}).results[0]


def _number_of(value: Value) -> int | None:
    """The value of a constant; None for anything else."""
    source = producer(value)
    if source is None or source.name != "arith.constant":
        return None
    return int(bindings.load().ir.IntegerAttr(source.attributes["value"]).value)


def _constant(number: int, width: int) -> Value:
    return create("arith.constant", [bits(width)], [], {"value": f"{number} : i{width}"}).results[0]


def _make(name: str, type_: Type, *operands: Value) -> Value:
    return create(name, [type_], operands).results[0]
