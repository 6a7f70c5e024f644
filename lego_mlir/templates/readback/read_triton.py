"""Parse and evaluate Triton index expressions on arrays of values.

An implementation of Triton's rules (int32 unless cast, division that truncates, `tl.arange`, explicit broadcasting),
independent of layouts and of the printer. Values are NumPy arrays whose leading axis is the samples, followed by the
axes of a block. An int32 overflow is an error, and so is combining a vector with a block without an explicit axis.

>>> import numpy as np
>>> evaluate("(m * 4 + tl.arange(0, 2))[:, None] + tl.arange(0, 2)[None, :]", {"m": np.array([0, 1])}).tolist()
[[[0, 1], [1, 2]], [[4, 5], [5, 6]]]
>>> evaluate("m // 2", {"m": np.array([-3])}).tolist()
[-1]
>>> evaluate("m * m", {"m": np.array([70000])})
Traceback (most recent call last):
    ...
lego_mlir.errors.TemplateError: m * m overflows int32: 4900000000
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lego_mlir import syntax_tree
from lego_mlir.aliases import Array
from lego_mlir.errors import TemplateError
from lego_mlir.templates.readback.common_rules import called, column, entries, floored, truncated, value_of

INT32: Final = (-(2**31), 2**31 - 1)
_BITS: Final = {"int32": 32, "int64": 64, "bool": 1}


@dataclass(frozen=True, slots=True)
class TypedBlock:
    """Exact int64 values with a leading axis of samples, and the width in bits that Triton computes them in."""

    values: Any
    bits: int
    literal: bool = False

    @property
    def rank(self) -> int:
        return int(self.values.ndim) - 1


def evaluate(
    text: str, values: Mapping[str, Array | TypedBlock], tables: Mapping[str, Sequence[int]] | None = None
) -> Array:
    """The values of an expression: samples first, then the block's axes. Raises TemplateError for any other text."""
    return typed(text, values, tables).values


def typed(
    text: str, values: Mapping[str, Array | TypedBlock], tables: Mapping[str, Sequence[int]] | None = None
) -> TypedBlock:
    """The values of an expression, and their width. A name that is given as a `TypedBlock` has the width of that."""
    try:
        tree = syntax_tree.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise TemplateError(f"not a Python expression: {text!r} ({error.msg})") from error
    return _Reader(values, tables or {}).read(tree)


class _Reader:
    def __init__(self, values: Mapping[str, Array | TypedBlock], tables: Mapping[str, Sequence[int]]) -> None:
        self.values = values
        self.tables = tables

    def read(self, node: ast.expr) -> TypedBlock:
        match node:
            case ast.Constant(value=bool() | int() as value):
                array = np.array([value], dtype=np.int64)
                return TypedBlock(array, 1 if isinstance(value, bool) else _bits(array), literal=True)
            case ast.Name(id=name):
                return self._name(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.read(operand)
                return self._fits(node, TypedBlock(-inner.values, inner.bits, inner.literal))
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(node, op, self.read(left), self.read(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                a, b = _aligned(node, self.read(left), self.read(right))
                return TypedBlock(_COMPARE[type(op)](a.values, b.values).astype(np.int64), 1)
            case ast.Subscript(value=value, slice=ast.Tuple(elts=places)):
                return self._spread(node, self.read(value), places)
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self._call(node, ast.unparse(function), arguments)
        raise TemplateError(f"cannot read {ast.unparse(node)!r} as an index expression")

    def _name(self, name: str) -> TypedBlock:
        given = value_of(name, self.values)
        if isinstance(given, TypedBlock):
            return given
        array = column(given)
        return TypedBlock(array, _bits(array))

    def _binary(self, node: ast.BinOp, op: ast.operator, left: TypedBlock, right: TypedBlock) -> TypedBlock:
        a, b = _aligned(node, left, right)
        bits = max(a.bits, b.bits)
        both_literal = left.literal and right.literal
        if type(op) in _ARITHMETIC:
            return self._fits(node, TypedBlock(_ARITHMETIC[type(op)](a.values, b.values), max(bits, 32), both_literal))
        if type(op) in _BITWISE:
            return TypedBlock(_BITWISE[type(op)](a.values, b.values), bits, both_literal)
        if isinstance(op, (ast.FloorDiv, ast.Mod)):
            divide = floored if both_literal else truncated  # Python computes literals; Triton's division truncates
            quotient, remainder = divide(a.values, b.values, ast.unparse(node))
            return TypedBlock(quotient if isinstance(op, ast.FloorDiv) else remainder, bits, both_literal)
        raise TemplateError(f"cannot read the operator of {ast.unparse(node)!r} in an index expression")

    def _fits(self, node: ast.expr, block: TypedBlock) -> TypedBlock:
        if block.bits == 32 and not block.literal and block.values.size:
            low, high = int(block.values.min()), int(block.values.max())
            if low < INT32[0] or high > INT32[1]:
                raise TemplateError(f"{ast.unparse(node)} overflows int32: {low if low < INT32[0] else high}")
        return block

    def _spread(self, node: ast.expr, block: TypedBlock, places: list[ast.expr]) -> TypedBlock:
        index: list[Any] = [slice(None)]
        for place in places:
            whole = isinstance(place, ast.Slice) and place.lower is place.upper is place.step is None
            if not whole and not (isinstance(place, ast.Constant) and place.value is None):
                raise TemplateError(f"cannot read {ast.unparse(node)!r}: only ':' and None can place a vector")
            index.append(slice(None) if whole else None)
        if sum(i is not None for i in index) - 1 != block.rank:
            raise TemplateError(f"{ast.unparse(node)} places {len(places)} axes of a block that has {block.rank}")
        return TypedBlock(block.values[tuple(index)], block.bits)

    def _call(self, node: ast.Call, function: str, arguments: list[ast.expr]) -> TypedBlock:
        if function == "tl.arange":
            low, high = (self.read(a).values.item() for a in arguments)
            if high <= low or (high - low) & (high - low - 1):
                raise TemplateError(f"{ast.unparse(node)}: tl.arange needs a power of two of values")
            return TypedBlock(np.arange(low, high, dtype=np.int64)[None, :], 32)
        if function == "tl.cast":
            inner, kind = self.read(arguments[0]), ast.unparse(arguments[1]).removeprefix("tl.")
            return self._fits(node, TypedBlock(inner.values, _BITS[kind]))
        if function in ("tl.max_contiguous", "tl.multiple_of"):
            return self._promise(node, function, self.read(arguments[0]), ast.literal_eval(arguments[1]))
        if function == "tl.load":
            return self._load(node, arguments[0])
        parts = _aligned(node, *(self.read(a) for a in arguments))
        found = called("triton", function, [p.values for p in parts], ast.unparse(node))
        return TypedBlock(found, max(p.bits for p in parts))

    def _promise(self, node: ast.Call, function: str, block: TypedBlock, lengths: list[int]) -> TypedBlock:
        """Verify a hint: contiguous segments, or the divisor of their first elements."""
        run = lengths[-1]
        groups = block.values.reshape(*block.values.shape[:-1], -1, run)
        if function == "tl.multiple_of" and np.any(groups[..., 0] % run):
            raise TemplateError(f"{ast.unparse(node)}: not every run begins at a multiple of {run}")
        if function == "tl.max_contiguous" and np.any(groups - groups[..., :1] != np.arange(run)):
            raise TemplateError(f"{ast.unparse(node)}: runs of {run} are not contiguous")
        return block

    def _load(self, node: ast.Call, address: ast.expr) -> TypedBlock:
        """`tl.load(table + index)`: an element of a run-time table."""
        match address:
            case ast.BinOp(left=ast.Name(id=name), op=ast.Add(), right=right) if name in self.tables:
                index = self.read(right)
                found, table = entries(name, index.values, self.tables, ast.unparse(node))
                return TypedBlock(found, _bits(table))
        raise TemplateError(f"cannot read {ast.unparse(node)!r}: only a table may be loaded in an index expression")


def _aligned(node: ast.expr, *blocks: TypedBlock) -> list[TypedBlock]:
    """Scalars broadcast to any shape; blocks of different rank must be broadcast explicitly by the text.

    A literal takes the type of the other operand, and must fit it.
    """
    if any(b.literal and b.bits == 64 for b in blocks) and any(not b.literal and b.bits == 32 for b in blocks):
        raise TemplateError(
            f"{ast.unparse(node)}: a number beyond int32 is combined with an int32; cast it to tl.int64"
        )
    rank = max(b.rank for b in blocks)
    result = []
    for block in blocks:
        if block.rank not in (0, rank):
            raise TemplateError(
                f"{ast.unparse(node)}: a block of {block.rank} axes is combined with one of {rank}; place "
                "it with [:, None]"
            )
        shape = (block.values.shape[0],) + (1,) * rank if block.rank == 0 else block.values.shape
        result.append(TypedBlock(block.values.reshape(shape), block.bits, block.literal))
    return result


def _bits(array: Array) -> int:
    return 32 if not array.size or (array.min() >= INT32[0] and array.max() <= INT32[1]) else 64


_ARITHMETIC: Final[dict[type[ast.operator], Callable[..., Any]]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.LShift: np.left_shift,
}
_BITWISE: Final[dict[type[ast.operator], Callable[..., Any]]] = {
    ast.RShift: np.right_shift,
    ast.BitAnd: np.bitwise_and,
    ast.BitOr: np.bitwise_or,
    ast.BitXor: np.bitwise_xor,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[..., Any]]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
