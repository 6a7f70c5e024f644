"""One notation for ints, NumPy arrays and symbols.

A user's permutation, `f = lambda i, j: (i + j) % n * 4 + (j ^ 1)`, must mean the same for a Python int, for an array of
a million indices, and for a symbol of a kernel. Ints and arrays already have the operators; `Index` adds them to a
SymPy expression, with integer semantics (`//` is floor division and never a rational, `^` is exclusive or). Operations
without an operator are functions: `where`, `isqrt`, `minimum`, `maximum`.

>>> where(3 < 4, 10, 20), isqrt(17)
(10, 4)
>>> i = index_symbol("i")
>>> (i + 5) // 4, where(i < 4, i, 0), isqrt(i) ^ 1
((i + 5) // 4, where(i < 4, i, 0), isqrt(i) ^ 1)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from lego_mlir.aliases import Cond, Expr, IndexLike, Operand
from lego_mlir.errors import ExpressionError, SymbolicBranchError, brief, without
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.integer_operations import OPERATIONS

if TYPE_CHECKING:
    import sympy


MOST_BITS: Final = 256
"""Bits of a size or an index that is given: far beyond any memory, and few enough to be printed."""


def is_symbolic(value: object) -> bool:
    """Whether a value is an `Index`, a `Condition` or a SymPy object. Does not import SymPy."""
    if isinstance(value, (Index, Condition)):
        return True
    basic = getattr(sys.modules.get("sympy"), "Basic", ())  # () too while another thread imports SymPy
    return isinstance(value, basic) and not value.is_Integer


def is_array(value: object) -> bool:
    """Whether a value is a NumPy array (NumPy scalars count as ints). Does not import NumPy."""
    return isinstance(value, getattr(sys.modules.get("numpy"), "ndarray", ()))


def is_masked(value: object) -> bool:
    """Whether a value is one of NumPy's masked arrays, whose data mean nothing where the mask is set."""
    return isinstance(value, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ()))


def as_expr(value: IndexLike) -> Expr:
    """The SymPy expression of an int, an `Index` or a SymPy expression, in canonical nodes; a condition is 0 or 1."""
    if isinstance(value, Index):
        return value.expr
    if isinstance(value, Condition):
        return sympy_nodes().Select(value.expr, 1, 0)
    if isinstance(value, int):  # a truth value too
        import sympy

        return sympy.Integer(int(value))
    if isinstance(value, float):
        raise ExpressionError(f"{value} is not an integer; write integer division as //, not /")
    return sympy_nodes().canonical(_no_text(value))


@functools.cache
def sympy_nodes() -> Any:
    """The module of nodes, which loads SymPy: looked up once, as this is asked for with every operand."""
    try:
        from lego_mlir.expr import nodes
    except ModuleNotFoundError as error:
        raise without(error, "size") from error
    return nodes


def as_condition(value: Condition | Cond) -> Cond:
    """The SymPy Boolean of a bool, a `Condition` or a SymPy relation, in canonical nodes."""
    if isinstance(value, Condition):
        return value.expr
    return sympy_nodes().canonical(_no_text(value))


def _no_text(value: object) -> object:
    """What SymPy converts. Raises ExpressionError for a text, which SymPy would evaluate as Python, and for None."""
    if value is None or isinstance(value, (str, bytes)):
        raise ExpressionError(f"an index is an int or an expression of sizes and indices, got {value!r}")
    return value._sympy_() if hasattr(value, "_sympy_") else value


class PerElement:
    """Many values that an operator applies to one by one, such as the registers of a tile.

    An index, a condition or data as the other operand leaves the operator to this class.
    """

    __slots__ = ()
    dtype: Operand

    def to(self, dtype: Operand) -> Operand:
        """The values in another element type."""
        raise NotImplementedError  # every subclass defines it

    def map(self, function: Callable[..., object], *operands: object) -> Any:
        """The function of the operands, for each value; operands of other kinds are the same for all of them."""
        raise NotImplementedError  # every subclass defines it

    def vote(self, kind: str) -> Operand:
        """Whether "any" or "all" of the values that a warp has are true."""
        raise NotImplementedError  # every subclass defines it


_BINARY = (
    *(f"__{side}{name}__" for side in ("", "r") for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift",
    )),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge")),
)  # fmt: skip
_Class = TypeVar("_Class", bound=type)


def defers_to_elements(operand: _Class) -> _Class:
    """A class whose binary operators are left to an `PerElement` as the other operand."""

    def deferring(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def operator(self: object, other: object) -> Any:
            return NotImplemented if isinstance(other, PerElement) else method(self, other)

        return operator

    for name in _BINARY:
        if name in vars(operand):
            setattr(operand, name, deferring(vars(operand)[name]))
    return operand


_NOT_COMPARED: Any = NotImplemented
in_kernel: Final[ContextVar[bool]] = ContextVar("a kernel's function runs", default=False)
"""Whether indices may have different values in different threads."""


def _operator(name: str) -> Callable[[Index, IndexLike], Index]:
    return lambda self, other: _node(name, self, other)


def _reflected(name: str) -> Callable[[Index, IndexLike], Index]:
    return lambda self, other: _node(name, other, self)


@defers_to_elements
class Index(Frozen):
    """A SymPy integer expression with Python's integer operators. Immutable."""

    __slots__ = ("expr",)
    _refusal = ExpressionError
    expr: sympy.Expr
    __array_ufunc__ = None  # ndarray + Index defers to Index, which raises, instead of making an object array

    def __init__(self, expr: IndexLike) -> None:
        object.__setattr__(self, "expr", as_expr(expr))

    def _arguments(self) -> tuple[object, ...]:
        return (self.expr,)

    def _sympy_(self) -> sympy.Expr:
        return self.expr

    def __repr__(self) -> str:
        return _shown(self.expr)

    def __hash__(self) -> int:
        return _hash(self)

    @property
    def is_number(self) -> bool:
        """Whether it is an int."""
        return bool(self.expr.is_Integer)

    def same(self, other: IndexLike) -> bool:
        """Structural equality. (`==` builds a condition, as the other comparisons do.)"""
        return bool(self.expr == as_expr(other))

    def __add__(self, other: IndexLike) -> Index:
        return Index(self.expr + as_expr(other))

    def __radd__(self, other: IndexLike) -> Index:
        return Index(as_expr(other) + self.expr)

    def __sub__(self, other: IndexLike) -> Index:
        return Index(self.expr - as_expr(other))

    def __rsub__(self, other: IndexLike) -> Index:
        return Index(as_expr(other) - self.expr)

    def __mul__(self, other: IndexLike) -> Index:
        return Index(self.expr * as_expr(other))

    def __rmul__(self, other: IndexLike) -> Index:
        return Index(as_expr(other) * self.expr)

    def __neg__(self) -> Index:
        return Index(-self.expr)

    def __pos__(self) -> Index:
        return self

    def __pow__(self, exponent: int) -> Index:
        if not isinstance(exponent, int) or exponent < 0:
            raise ExpressionError(f"{self!r} ** {exponent}: the exponent must be an int >= 0")
        return Index(self.expr**exponent)

    def __rpow__(self, base: IndexLike) -> Index:
        if type(base) is not int or base < 1 or base & (base - 1):
            raise ExpressionError(f"{base} ** {self!r}: only a power of two can be raised to a symbol, as a shift")
        return Index(1) << (base.bit_length() - 1) * self

    __floordiv__, __rfloordiv__ = _operator("FloorDiv"), _reflected("FloorDiv")
    __mod__, __rmod__ = _operator("FloorMod"), _reflected("FloorMod")
    __lshift__, __rlshift__ = _operator("ShiftLeft"), _reflected("ShiftLeft")
    __rshift__, __rrshift__ = _operator("ShiftRight"), _reflected("ShiftRight")
    __xor__ = __rxor__ = _operator("BitXor")
    __and__ = __rand__ = _operator("BitAnd")
    __or__ = __ror__ = _operator("BitOr")

    def __divmod__(self, other: IndexLike) -> tuple[Index, Index]:
        return self // other, self % other

    def __rdivmod__(self, other: IndexLike) -> tuple[Index, Index]:
        return other // self, other % self

    def __abs__(self) -> Index:
        return where(self < 0, -self, self)

    def __invert__(self) -> Index:
        return -self - 1

    def __truediv__(self, other: IndexLike) -> NoReturn:
        raise ExpressionError(f"{self!r} / {other!r}: an index has no fractions; write integer division as //")

    __rtruediv__ = __truediv__

    def __lt__(self, other: IndexLike) -> Condition:
        return _condition("Lt", self, other)

    def __le__(self, other: IndexLike) -> Condition:
        return _condition("Le", self, other)

    def __gt__(self, other: IndexLike) -> Condition:
        return _condition("Lt", other, self)

    def __ge__(self, other: IndexLike) -> Condition:
        return _condition("Le", other, self)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return _condition("Eq", self, other)

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        if other is None:
            return NotImplemented
        return _condition("Ne", self, other)

    def __bool__(self) -> bool:
        return _truth(self, " != 0")

    def __index__(self) -> int:
        if self.expr.is_Integer:
            return int(self.expr)
        raise SymbolicBranchError(
            f"a plain int is needed here, but {self!r} is symbolic; lego.where, lego.isqrt, lego.minimum and "
            "lego.maximum work for symbols, and range(), math and list indexing do not"
        )

    __int__ = __index__


@defers_to_elements
class Condition(Frozen):
    """A truth value over symbols: combine with `&`, `|` and `~`, and select with `where`."""

    __slots__ = ("expr",)
    _refusal = ExpressionError
    expr: Any
    __array_ufunc__ = None

    def __init__(self, expr: Condition | Cond) -> None:
        object.__setattr__(self, "expr", as_condition(expr))

    def _arguments(self) -> tuple[Expr]:
        return (self.expr,)

    def _sympy_(self) -> Cond:
        return self.expr

    def __repr__(self) -> str:
        return _shown(self.expr)

    def __hash__(self) -> int:
        return _hash(self)

    def __and__(self, other: Condition | Cond) -> Condition:
        return _logic("And", self, other)

    __rand__ = __and__

    def __or__(self, other: Condition | Cond) -> Condition:
        return _logic("Or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Condition | Cond) -> Condition:
        return self != other

    __rxor__ = __xor__

    def __invert__(self) -> Condition:
        return _logic("Not", self)

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        if other is None:
            return _NOT_COMPARED
        from sympy.logic.boolalg import Boolean

        given: Any = other._sympy_() if hasattr(other, "_sympy_") else other  # of data: a condition on a symbol
        if isinstance(given, bool | Boolean):
            return Condition(True) if self.same(given) else (self & given) | (~self & ~Condition(given))
        return Index(self) == given

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return _NOT_COMPARED if other is None else ~(self == other)

    def same(self, other: Condition | Cond) -> bool:
        """Structural equality. (`==` builds a condition, as for indices.)"""
        return bool(self.expr == as_condition(other))

    def __lt__(self, other: IndexLike) -> Condition:
        return Index(self) < other

    def __le__(self, other: IndexLike) -> Condition:
        return Index(self) <= other

    def __gt__(self, other: IndexLike) -> Condition:
        return Index(self) > other

    def __ge__(self, other: IndexLike) -> Condition:
        return Index(self) >= other

    def __bool__(self) -> bool:
        return _truth(self)

    # A truth value is also 0 or 1, as in Python: `(j >= n) + i`.
    def __add__(self, other: IndexLike) -> Index:
        return Index(self) + other

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> Index:
        return Index(self) - other

    def __rsub__(self, other: IndexLike) -> Index:
        return other - Index(self)

    def __mul__(self, other: IndexLike) -> Index:
        return Index(self) * other

    __rmul__ = __mul__


def _node(name: str, *args: IndexLike) -> Index:
    return kept(Index(getattr(sympy_nodes(), name)(*map(as_expr, args))), args)


def _applied(name: str, *args: IndexLike) -> IndexLike:
    """The operation of this node on ints, on arrays, or on symbols."""
    if any(map(is_symbolic, args)):
        return _node(name, *args)
    operation = OPERATIONS[name]
    return operation.of_arrays(*args) if any(map(is_array, args)) else operation.of(*args)


def _condition(name: str, *args: IndexLike) -> Condition:
    for text in args:
        if isinstance(text, str):
            raise ExpressionError(f"the text {text!r} cannot be compared with an index; lego.size makes one of a name")
    return kept(Condition(getattr(sympy_nodes(), name)(*map(as_expr, args))), args)


def _logic(name: str, *args: Condition | Cond) -> Condition:
    import sympy

    return kept(Condition(getattr(sympy, name)(*map(as_condition, args))), args)


def kept(result: Any, given: Sequence[Any]) -> Any:
    """The result, wrapped by the first operand that has a `keep` method, such as a template's, which carries ranges."""
    for value in given:
        keep = getattr(value, "keep", None)
        if keep is not None:
            return keep(result, given)
    return result


def _shown(expr: Expr) -> str:
    from lego_mlir.expr.prefix import shown

    return shown(expr)


def _truth(value: Index | Condition, compared: str = "") -> bool:
    expr: Any = value.expr
    if expr.is_Integer or (expr.is_Boolean and not expr.args):
        return bool(expr)
    raise SymbolicBranchError(
        f"the truth of '{brief(repr(value))}{compared}' depends on symbols, so `if`, `and`, `or`, `not`, min() and "
        "max() cannot be used on it; use lego.where(condition, a, b), &, |, ~, lego.minimum and lego.maximum, which "
        "work for ints, arrays and symbols"
    )


def _hash(value: Index | Condition) -> int:
    """The hash of the formula. A kernel has no sets of indices: they compare hashes before `==` gives a condition."""
    from lego_mlir.expr.nodes import Size

    if in_kernel.get() and not all(isinstance(symbol, Size) for symbol in value.expr.free_symbols):
        raise SymbolicBranchError(
            f"'{brief(repr(value))}' depends on symbols, so it cannot be in a set or a key of a dict, which would "
            "compare it while tracing; compare with ==, and combine conditions with |; its formula, .expr, can be a key"
        )
    return hash(value.expr)


def index_symbol(name: str) -> Index:
    """A fresh integer symbol. Its range is given where it is used: `{i.expr: Range(0, n)}`."""
    import sympy

    return Index(sympy.Symbol(name, integer=True))


def symbols(names: str) -> tuple[Index, ...]:
    """Integer symbols, one for each space-separated name; their ranges are given where they are used.

    >>> i, j = symbols("i j")
    >>> i % 4 + j
    j + i % 4
    """
    return tuple(map(index_symbol, names.split()))


def where(condition: Cond, a: IndexLike, b: IndexLike) -> IndexLike:
    """`a` where the condition holds, else `b`: for a bool, an array of bools or a symbolic condition.

    Both branches are always computed, so neither may fail where it is not chosen.
    """
    if is_symbolic(condition):
        chosen = sympy_nodes().Select(as_condition(condition), as_expr(a), as_expr(b))
        return kept(Index(chosen), (condition, a, b))
    if is_array(condition):
        import numpy

        return numpy.where(condition, a, b)
    return a if condition else b


def isqrt(x: IndexLike) -> IndexLike:
    """The floor of the square root of an int, of every element of an array, or of a symbol; x >= 0.

    Raises ExpressionError for a negative number and for a value that is not an integer.
    """
    if not (is_symbolic(x) or is_array(x)):
        if not hasattr(x, "__index__"):
            raise ExpressionError(f"isqrt takes integers, got {x!r} of type {type(x).__name__}")
        if int(x) < 0:
            raise ExpressionError(f"isqrt of the negative number {x}")
    return _applied("ISqrt", x)


def minimum(a: IndexLike, b: IndexLike) -> IndexLike:
    """The smaller of two, elementwise for arrays."""
    return _applied("Smaller", a, b)


def maximum(a: IndexLike, b: IndexLike) -> IndexLike:
    """The larger of two, elementwise for arrays."""
    return _applied("Larger", a, b)


def cdiv(a: IndexLike, b: IndexLike) -> IndexLike:
    """Ceiling division: the number of tiles of b that cover a."""
    return (a + b - 1) // b
