"""Floating-point arithmetic, rounded once to nearest even; approximations are computed in f64 and rounded.

add, sub, mul, div, fma, min, max, neg, abs, sqrt, rsqrt, rcp, ex2, lg2, sin, cos, tanh, copysign, for f16, bf16, f32
and f64, and pairs of 16-bit numbers. PTX ISA, "Floating Point Instructions", "Half Precision .."; an `.approx` result
of a GPU differs in the last bits, so comparisons need the tolerance of the spec.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

import ml_dtypes
import numpy as np

from lego_mlir.aliases import Array, Dtype
from lego_mlir.interp import extremes, rounding
from lego_mlir.interp.directed_rounding import directed
from lego_mlir.interp.ptx.decoder import Decoder, opcode
from lego_mlir.interp.ptx.ptx_machine import Step
from lego_mlir.interp.ptx.ptx_program import PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS, NUMPY, PACKED

SMALLEST_NORMAL: Final = np.finfo(np.float32).tiny
DIRECTED: Final = frozenset({"rz", "rm", "rp"})


def flushed(value: Array) -> Array:
    """`.ftz`: subnormal f32 become zeros of their sign."""
    if value.dtype != np.float32:
        return value
    return np.where(np.abs(value) < SMALLEST_NORMAL, np.copysign(np.float32(0), value), value)


TWO: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": extremes.minnum,
    "max": extremes.maxnum,
}


def is_bf16(dtype: Dtype) -> bool:
    """Whether a dtype is bf16, which NumPy computes with through `ml_dtypes`."""
    return bool(dtype == np.dtype(ml_dtypes.bfloat16))


def wide(function: Callable[..., Array], dtype: Dtype) -> Callable[..., Array]:
    """A function on bf16 numbers, computed in f32 and rounded."""
    if not is_bf16(dtype):
        return function
    return lambda *values: function(*(v.astype(np.float32) for v in values)).astype(dtype)


def saturated(value: Array) -> Array:
    """`.sat`: clamped to 0..1, NaN to 0."""
    one = value.dtype.type(1)
    return np.where(np.isnan(value), value.dtype.type(0), np.clip(value, value.dtype.type(0), one))


def _finish(instruction: PtxInstruction) -> Callable[[Array], Array]:
    steps: list[Callable[[Array], Array]] = []
    if "sat" in instruction.modifiers:
        steps.append(saturated)
    if "ftz" in instruction.modifiers:
        steps.append(flushed)
    if "relu" in instruction.modifiers:
        steps.append(lambda value: np.where((value > 0) | np.isnan(value), value, value.dtype.type(0)))

    def finish(value: Array) -> Array:
        for step in steps:
            value = step(value)
        return value

    return finish


def _directed(decoder: Decoder, instruction: PtxInstruction) -> str | None:
    """The rounding towards zero, down or up; None for the nearest. f32 and f64 have it here."""
    found = sorted(DIRECTED & set(instruction.modifiers))
    if found and decoder.type_of(instruction) not in ("f32", "f64"):
        raise decoder.refused(instruction, f"the rounding .{found[0]} of arithmetic is not modelled; .rn is")
    return found[0] if found else None


def build_two(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`add.rn.f32 d, a, b`, and pairs."""
    mode, type_ = _directed(decoder, instruction), decoder.type_of(instruction)
    dtype = NUMPY[PACKED.get(type_, type_)]
    function, finish = wide(TWO[instruction.opcode], dtype), _finish(instruction)
    propagates, ftz = "NaN" in instruction.modifiers, "ftz" in instruction.modifiers

    def combined(x: Array, y: Array) -> Array:
        return function(x, y) if mode is None else directed(instruction.opcode, mode, [x, y])

    def compute(*given: Array) -> Array:  # three of max.f32 d, a, b, c of sm_100
        given = tuple(map(flushed, given)) if ftz else given
        value = finish(reduce(combined, given))
        if propagates:
            value = np.where(np.isnan(given[0]) | np.isnan(given[1]), dtype.type(np.nan), value)
        return repacked(value, type_)

    return decoder.computed(instruction, compute, type_)


def repacked(value: Array, type_: str) -> Array:
    """Pairs of 16-bit numbers as 32-bit words."""
    return value.view(BITS[16 * value.dtype.itemsize]) if type_ in PACKED else value


@opcode("fma")
def build_fma(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`fma.rn.f32 d, a, b, c`: one rounding."""
    mode, type_ = _directed(decoder, instruction), decoder.type_of(instruction)
    dtype, finish = NUMPY[PACKED.get(type_, type_)], _finish(instruction)
    ftz = "ftz" in instruction.modifiers

    def compute(*given: Array) -> Array:
        values = list(map(flushed, given)) if ftz else list(given)
        lanes = max(map(len, values))
        values = [v if len(v) == lanes else np.repeat(v, lanes) for v in values]
        fused = rounding.fma(*values) if mode is None else directed("fma", mode, values)
        return repacked(finish(fused.astype(dtype)), type_)

    return decoder.computed(instruction, compute, type_)


def build_one(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`neg.f32 d, a` and `abs.f32 d, a`: the sign bit alone."""
    type_ = decoder.type_of(instruction)
    unsigned = np.dtype(f"u{NUMPY[PACKED.get(type_, type_)].itemsize}")
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if instruction.opcode == "neg":
        return decoder.computed(instruction, lambda x: repacked(x.view(unsigned) ^ sign, type_))
    return decoder.computed(instruction, lambda x: repacked(x.view(unsigned) & ~sign, type_))


FUNCTIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}


@opcode("sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh")
def build_function(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`ex2.approx.ftz.f32 d, a`."""
    mode, type_ = _directed(decoder, instruction), decoder.type_of(instruction)
    dtype, function = NUMPY[PACKED.get(type_, type_)], FUNCTIONS[instruction.opcode]
    ftz = "ftz" in instruction.modifiers

    def compute(x: Array) -> Array:
        x = flushed(x) if ftz else x
        if mode is not None and instruction.opcode in ("rcp", "sqrt"):
            found = directed(instruction.opcode, mode, [x])
        else:
            found = rounding.narrow(function(x.astype(np.float64)), dtype)
        return repacked(flushed(found) if ftz else found, type_)

    return decoder.computed(instruction, compute, type_)


@opcode("copysign")
def build_copysign(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`copysign.f32 d, a, b`: the sign of a, the magnitude of b."""
    return decoder.computed(instruction, lambda a, b: np.copysign(b, a))


@opcode("testp")
def build_testp(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`testp.finite.f32 p, a`."""
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(x.dtype).tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(x.dtype).tiny),
    }
    return decoder.computed(instruction, tests[next(m for m in instruction.modifiers if m in tests)])
