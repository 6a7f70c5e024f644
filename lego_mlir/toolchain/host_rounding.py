"""16-bit floats on a CPU, rounded once, as a GPU's instructions round them.

An x86 converts f64 to f16 in two steps, and has no fused multiply-add of 16 bits; the functions of the C library that
LLVM calls instead are not everywhere, and round twice. Two replacements use instructions of f32 and f64 only:

    f64 -> f16 or bf16    f32 rounded to odd between the two
    fma(a, b, c)          a * b is exact in f64; the sum is rounded to odd in f64, then as above
"""

from __future__ import annotations

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.elementwise import EQ, ONE, SLT, Elementwise, element_name, replace, single_to_odd

_HALVES = ("f16", "bf16")


def replace_in(function: Op) -> None:
    """Replace both kinds of operations of a host's function."""
    ir = bindings.load().ir
    for operation in list(walk(function)):
        if operation.name == "math.fma" and element_name(operation.results[0].type) in _HALVES:
            with operation.location, ir.InsertionPoint(operation):
                e = Elementwise(operation.results[0].type)
                a, b, c = (e.make("arith.extf", "f64", x) for x in operation.operands)
                total = _sum_to_odd(e, e.make("arith.mulf", "f64", a, b), c)
                replace(operation, _halved(e, total, element_name(operation.results[0].type)))
        elif operation.name == "arith.truncf" and element_name(operation.operands[0].type) == "f64":
            target = element_name(operation.results[0].type)
            if target in _HALVES:
                with operation.location, ir.InsertionPoint(operation):
                    replace(operation, _halved(Elementwise(operation.results[0].type), operation.operands[0], target))


def _halved(e: Elementwise, given: Value, target: str) -> Value:
    return e.make("arith.truncf", target, single_to_odd(e, given))


def _sum_to_odd(e: Elementwise, a: Value, b: Value) -> Value:
    """a + b in f64: where it is inexact and its last bit is even, one unit towards the error. As interp/rounding.py.

    The operands have at most 16 bits, so no sum overflows, and a sum of 0 is exact.
    """
    total = e.make("arith.addf", "f64", a, b)
    virtual = e.make("arith.subf", "f64", total, a)
    of_a = e.make("arith.subf", "f64", a, e.make("arith.subf", "f64", total, virtual))
    error = e.make("arith.addf", "f64", of_a, e.make("arith.subf", "f64", b, virtual))
    zero, one = e.number(0.0, "f64"), e.number(1, "i64")
    pattern = e.make("arith.bitcast", "i64", total)
    even = e.compare(EQ, e.make("arith.andi", "i64", pattern, one), e.number(0, "i64"))
    moves = e.make("arith.andi", "i1", even, e.compare(ONE, error, zero))  # not for a NaN or infinity
    grows = e.compare(
        SLT, e.make("arith.xori", "i64", pattern, e.make("arith.bitcast", "i64", error)), e.number(0, "i64")
    )
    step = e.choose(grows, e.number(-1, "i64"), one)
    moved = e.make("arith.bitcast", "f64", e.make("arith.addi", "i64", pattern, step))
    return e.choose(moves, moved, total)
