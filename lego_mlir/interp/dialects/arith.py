"""`arith` and `index`: integers wrap at their width, floating point rounds once, each division has its own rounding.

The integer operations of `index` are those of `arith` on 64-bit indices, named without the final i.

`divsi` truncates and `floordivsi` floors; division by zero is undefined in MLIR and a fault here, in active lanes.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Attribute, Type
from lego_mlir.interp import extremes, rounding, values
from lego_mlir.interp.machine import Machine, merge
from lego_mlir.interp.program import Implementation, Operation, Step, implements
from lego_mlir.interp.report import Kind, SourceLocation
from lego_mlir.interp.values import Array, DType, unsigned

Binary = Callable[[Array, Array], Array]


def constant_array(attribute: Attribute, type_: Type) -> Array:
    """A constant attribute as a value for all lanes: `(1, 1)` plus the vector's shape."""
    dtype, shape = values.element_dtype(type_), values.vector_shape(type_)
    if hasattr(attribute, "value"):
        return np.full((1, 1), attribute.value).astype(dtype)
    if getattr(attribute, "is_splat", False):
        element = attribute.get_splat_value()
        return np.full((1, 1, *shape), element.value).astype(dtype)
    return elements(attribute, dtype).reshape(1, 1, *shape)


def elements(attribute: Attribute, dtype: DType) -> Array:
    """The elements of a dense attribute, parsed from its text if the bindings have no buffer for the type."""
    try:
        return np.array(attribute).astype(dtype).reshape(-1)
    except TypeError:
        body = str(attribute).split("<", 1)[1].rsplit(">", 1)[0].rsplit(">", 1)[0]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body.strip('"')[2:]), dtype).copy()
    found = []
    for token in re.findall(r"0x[0-9A-Fa-f]+|[-+]?[0-9][0-9.eE+-]*", body.split(":")[0]):
        is_bits = token.startswith("0x")
        bits = np.array([int(token, 16) if is_bits else 0], values.UNSIGNED[dtype.itemsize])
        found.append(bits.view(dtype)[0] if is_bits else dtype.type(float(token)))
    return np.array(found, dtype)


@implements("arith.constant", "index.constant", "index.bool.constant")
def constant(op: Operation) -> Step:
    return op.constant(constant_array(op.attribute("value"), op.result_type()))


def _wrapping(number: Binary, boolean: Binary) -> Implementation:
    """An integer operation that is a bitwise operation on `i1`."""

    def build(op: Operation) -> Step:
        is_bool = values.element_dtype(op.operand_type(0)) == np.bool_
        return op.elementwise(boolean if is_bool else number)

    return build


def _min_max(number: Binary, signed: bool) -> Implementation:
    def build(op: Operation) -> Step:
        dtype = values.element_dtype(op.operand_type(0))
        if signed or dtype == np.bool_:
            return op.elementwise(number)
        return op.elementwise(lambda a, b: number(unsigned(a), unsigned(b)).view(dtype))

    return build


def shift_left(a: Array, b: Array) -> Array:
    return np.left_shift(a, b)


def shift_right_unsigned(a: Array, b: Array) -> Array:
    return (unsigned(a) >> unsigned(b)).view(a.dtype)


INTEGER: Final = {
    "addi": _wrapping(np.add, np.bitwise_xor),
    "subi": _wrapping(np.subtract, np.bitwise_xor),
    "muli": _wrapping(np.multiply, np.bitwise_and),
    "andi": _wrapping(np.bitwise_and, np.bitwise_and),
    "ori": _wrapping(np.bitwise_or, np.bitwise_or),
    "xori": _wrapping(np.bitwise_xor, np.bitwise_xor),
    "shli": _wrapping(shift_left, lambda a, b: a & ~b),
    "shrsi": _wrapping(np.right_shift, lambda a, b: a),
    "shrui": _wrapping(shift_right_unsigned, lambda a, b: a & ~b),
    "maxsi": _min_max(np.maximum, True),
    "minsi": _min_max(np.minimum, True),
    "maxui": _min_max(np.maximum, False),
    "minui": _min_max(np.minimum, False),
}
for _name, _build in INTEGER.items():
    implements(f"arith.{_name}", f"index.{_name.removesuffix('i')}")(_build)


def truncating(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient and remainder as in C, the quotient rounded towards zero."""
    quotient = a // b
    remainder = a - quotient * b
    if (a < 0).any() or (b < 0).any():
        fix = (remainder != 0) & ((a < 0) != (b < 0))
        quotient, remainder = quotient + fix.astype(a.dtype), remainder - np.where(fix, b, 0).astype(a.dtype)
    return quotient, remainder


def ceiling(a: Array, b: Array) -> Array:
    quotient = a // b
    return quotient + (a - quotient * b != 0).astype(a.dtype)


def _on_unsigned(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda a, b: compute(unsigned(a), unsigned(b)).view(a.dtype)


DIVISIONS: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "divs": lambda a, b: truncating(a, b)[0],
    "rems": lambda a, b: truncating(a, b)[1],
    "divu": _on_unsigned(lambda a, b: a // b),
    "remu": _on_unsigned(lambda a, b: a % b),
    "ceildivs": ceiling,
    "ceildivu": _on_unsigned(ceiling),
    "floordivs": lambda a, b: a // b,
}


def division(op: Operation, compute: Callable[[Array, Array], Array]) -> Step:
    """A division that reports a zero divisor, and continues with 1 in its place, and a quotient that does not fit."""
    left, right = op.operands
    result, place, name = op.result, op.place, op.name
    is_signed = not name.removesuffix("i").endswith("u")

    def step(m: Machine) -> None:
        a, b = m.values[left], m.values[right]
        zero: Array = b == 0
        if zero.any():
            report_undefined(m, zero, place, f"{name} by zero")
            b = np.where(zero, np.ones((), b.dtype), b)
        if is_signed and (b == -1).any():
            least = np.iinfo(a.dtype).min
            report_undefined(m, (a == least) & (b == -1), place, f"{name} of {least} by -1")
        m.values[result] = compute(a, b)

    return step


def report_undefined(m: Machine, where: Array, place: SourceLocation, message: str) -> None:
    """Report undefined arithmetic in the active lanes of `where`."""
    report_lanes(m, where, place, message, Kind.UNDEFINED)


def report_lanes(m: Machine, where: Array, place: SourceLocation, message: str, kind: Kind) -> None:
    """Report a fault of the active lanes of `where`."""
    lanes = np.asarray(where.reshape(*where.shape[:2], -1).any(axis=-1))
    lanes = np.broadcast_to(m.narrow(lanes), m.lanes)
    if lanes.any():
        row, thread = np.unravel_index(int(np.flatnonzero(lanes)[0]), lanes.shape)
        m.faults.add(kind, message, place, *m.name_lane(int(row), int(thread)), count=int(lanes.sum()))


for _name, _compute in DIVISIONS.items():
    implements(f"arith.{_name}i", f"index.{_name}")(
        lambda op, _compute=_compute: division(op, _compute)  # type: ignore[misc]
    )

COMPARE: Final[tuple[Callable[[Array, Array], Any], ...]] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    lambda a, b: unsigned(a) < unsigned(b),
    lambda a, b: unsigned(a) <= unsigned(b),
    lambda a, b: unsigned(a) > unsigned(b),
    lambda a, b: unsigned(a) >= unsigned(b),
)


@implements("arith.cmpi")
def cmpi(op: Operation) -> Step:
    predicate = op.integer("predicate")
    if values.element_dtype(op.operand_type(0)) == np.bool_:
        # As a signed number, true is -1.
        signed = 2 <= predicate <= 5
        compare = COMPARE[predicate if predicate < 6 else predicate - 4]
        return op.elementwise((lambda a, b: compare(b, a)) if signed else compare)
    return op.elementwise(COMPARE[predicate])


PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")


@implements("index.cmp")
def compare_indices(op: Operation) -> Step:
    return op.elementwise(COMPARE[PREDICATES.index(op.keyword("pred"))])


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _float_compare(predicate: int) -> Callable[[Array, Array], Array]:
    ordered: list[Callable[[Array, Array], Any]] = [
        np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal,
    ]  # fmt: skip
    if predicate in (0, 15):
        return lambda a, b: np.full(np.broadcast_shapes(a.shape, b.shape), predicate == 15)
    if predicate in (7, 14):
        return lambda a, b: _unordered(a, b) == (predicate == 14)
    if predicate < 7:
        compare = ordered[predicate - 1]
        return lambda a, b: np.asarray(compare(a, b)) & ~_unordered(a, b)
    compare = ordered[predicate - 8]
    return lambda a, b: np.asarray(compare(a, b)) | _unordered(a, b)


@implements("arith.cmpf")
def cmpf(op: Operation) -> Step:
    return op.elementwise(_float_compare(op.integer("predicate")))


@implements("arith.select")
def select(op: Operation) -> Step:
    return op.elementwise(merge)


def _rounded(compute: Callable[..., Array]) -> Callable[[Operation], Step]:
    """A floating-point operation, through f32 if NumPy would not saturate as the hardware does."""

    def build(op: Operation) -> Step:
        dtype = values.element_dtype(op.result_type())
        if dtype not in rounding.SATURATING:
            return op.elementwise(compute)
        return op.elementwise(lambda *a: rounding.narrow(compute(*[x.astype(np.float32) for x in a]), dtype))

    return build


FLOATING: Final[dict[str, Callable[..., Any]]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "remf": np.fmod,
    "negf": np.negative,
    "maximumf": extremes.maximum,
    "minimumf": extremes.minimum,
    "maxnumf": extremes.maxnum,
    "minnumf": extremes.minnum,
}
for _name, _function in FLOATING.items():
    implements(f"arith.{_name}")(_rounded(_function))


@implements("arith.extf", "arith.truncf")
def convert_float(op: Operation) -> Step:
    dtype = values.element_dtype(op.result_type())
    return op.elementwise(lambda a: rounding.narrow(a, dtype))


@implements("arith.extsi", "arith.trunci", "arith.index_cast", "index.casts", "index.sizeof")
def convert_signed(op: Operation) -> Step:
    source, dtype = values.element_dtype(op.operand_type(0)), values.element_dtype(op.result_type())
    if source == np.bool_:
        return op.elementwise(lambda a: -a.astype(dtype))
    if dtype == np.bool_:
        return op.elementwise(lambda a: (a & 1).astype(np.bool_))
    return op.elementwise(lambda a: a.astype(dtype))


@implements("arith.extui", "arith.index_castui", "index.castu")
def convert_unsigned(op: Operation) -> Step:
    source, dtype = values.element_dtype(op.operand_type(0)), values.element_dtype(op.result_type())
    if source == np.bool_:
        return op.elementwise(lambda a: a.astype(dtype))
    if dtype == np.bool_:
        return op.elementwise(lambda a: (a & 1).astype(np.bool_))
    return op.elementwise(lambda a: unsigned(a).astype(dtype))


@implements("arith.sitofp", "arith.uitofp")
def integer_to_float(op: Operation) -> Step:
    dtype, is_signed = values.element_dtype(op.result_type()), op.name == "arith.sitofp"

    def compute(a: Array) -> Array:
        if a.dtype == np.bool_:
            a = -a.astype(np.int8) if is_signed else a.astype(np.int8)
        elif not is_signed:
            a = unsigned(a)
        return a.astype(dtype) if dtype.kind == "f" else rounding.narrow(rounding.to_odd_f64(a), dtype)

    return op.elementwise(compute)


@implements("arith.fptosi", "arith.fptoui")
def float_to_integer(op: Operation) -> Step:
    """Towards zero, saturating, NaN to 0, as `cvt.rzi`; MLIR leaves the out-of-range cases undefined."""
    dtype, is_signed = values.element_dtype(op.result_type()), op.name == "arith.fptosi"
    info = np.iinfo(np.int8 if dtype == np.bool_ else dtype if is_signed else values.UNSIGNED[dtype.itemsize])

    def compute(a: Array) -> Array:
        whole = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0, posinf=float(info.max), neginf=float(info.min))
        inside = np.clip(whole, float(info.min), float(info.max))
        top = whole >= float(info.max)
        number = np.where(top, 0, inside).astype(info.dtype)
        return np.where(top, info.max, number).astype(info.dtype).view(dtype)

    return op.elementwise(compute)


@implements("arith.bitcast", "vector.bitcast")
def bitcast(op: Operation) -> Step:
    dtype = values.element_dtype(op.result_type())
    return op.elementwise(lambda a: np.ascontiguousarray(a).view(dtype))


@implements("arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended")
def extended(op: Operation) -> Step:
    """Two results: the low half, and the carry or the high half."""
    low, high = op.results
    left, right = op.operands
    dtype = values.element_dtype(op.operand_type(0))
    kind = op.name.removeprefix("arith.")
    is_signed, bits = kind == "mulsi_extended", values.bits_of(dtype)
    mask = (1 << bits) - 1

    def to_bits(x: Array) -> Array:
        return np.asarray(x & mask).astype(values.UNSIGNED[dtype.itemsize]).view(dtype)

    def step(m: Machine) -> None:
        a, b = m.values[left], m.values[right]
        wide_a = (a if is_signed else unsigned(a)).astype(object)
        wide_b = (b if is_signed else unsigned(b)).astype(object)
        full = wide_a + wide_b if kind == "addui_extended" else wide_a * wide_b
        m.values[low] = to_bits(full)
        m.values[high] = (full >> bits).astype(bool) if kind == "addui_extended" else to_bits(full >> bits)

    return step
