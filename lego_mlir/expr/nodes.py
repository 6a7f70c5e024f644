"""The integer operations that SymPy lacks, as SymPy nodes.

SymPy has `floor(x/d)` over the rationals; index arithmetic is over the integers and needs floor division, bit
operations, selection and table look-up as primitives. Each is a small `Expr` here with only the constant folding that
is always valid: a simplification that depends on a range is a rule in `expr.rules`.

Division is explicit. `FloorDiv` and `FloorMod` round towards minus infinity, as Python's `//` and `%` do, and are the
only divisions of the algebra; a printer may choose the hardware's truncating form where it has proved the signs of both
operands. Conditions are nodes as well (`Lt`, `Le`, `Eq`, `Ne`): SymPy's own relations query the assumption system while
they are built, which costs more than the rest of a derivation.

>>> import sympy
>>> i = sympy.Symbol("i", integer=True)
>>> FloorDiv(i, 4), FloorMod(i, 4), FloorDiv(sympy.Integer(-7), 2)
(i // 4, i % 4, -4)
>>> Select(Lt(i, 4), i, 4)
where(i < 4, i, 4)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, TypeAlias
from weakref import WeakValueDictionary

import sympy
from sympy import Expr, Integer
from sympy.core.cache import cacheit
from sympy.logic.boolalg import Boolean
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from lego_mlir.aliases import IndexLike, Symbol
from lego_mlir.errors import ExpressionError
from lego_mlir.expr.integer_operations import OPERATIONS, IntegerOperation

NodeType: TypeAlias = type[Any]
"""The class of a node, which names its operation."""


class _Shared:
    """A hash-consed node, which also caches its free symbols.

    SymPy compares, replaces and collects symbols by walking trees: an expression with shared parts is expanded, to
    2**30 nodes after thirty levels. Equal parts that are the same object compare in one step.
    """

    __slots__ = ()

    @classmethod
    def _unique(cls, base: type[Any], *args: Expr) -> Expr:
        """The existing node with these arguments, or a new one of the SymPy class `base`."""
        key = (cls, args)
        found = _unique_nodes.get(key)
        if found is None:
            found = base.__new__(cls, *args)
            found = _unique_nodes.setdefault(key, found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and hash(self) == hash(other) and super().__eq__(other)

    __hash__ = sympy.Basic.__hash__  # which a class that defines __eq__ would lose

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        """The symbols that the value depends on."""
        if not hasattr(self, "_symbols"):
            for node in every_node(self):  # operands first: nothing nests deeply
                if isinstance(node, _Shared) and not hasattr(node, "_symbols"):
                    known = frozenset[Any]().union(*(a.free_symbols for a in node._depends_on()))
                    object.__setattr__(node, "_symbols", known)
        found: frozenset[Any] = self._symbols  # type: ignore[attr-defined]
        return found

    def _depends_on(self) -> tuple[Expr, ...]:
        args: tuple[Any, ...] = self.args  # type: ignore[attr-defined]
        return args

    def _xreplace(self, rule: Mapping[Expr, Expr]) -> tuple[Expr, bool]:
        if not isinstance(rule, _Replacement):
            rule = _Replacement(rule)
        found = rule.replaced.get(self)
        if found is None:
            found = rule.replaced[self] = super()._xreplace(rule)  # type: ignore[misc]
        return found


_unique_nodes: WeakValueDictionary[Any, Any] = WeakValueDictionary()


class _Replacement(dict[Any, Any]):
    """The substitution of `replaced`, and the memoized result for each node."""

    def __init__(self, rule: Mapping[Expr, Expr]) -> None:
        super().__init__(rule)
        self.replaced: dict[Any, tuple[Any, bool]] = {}


def replaced(expr: Expr, rule: Mapping[Expr, Expr]) -> Expr:
    """SymPy's `xreplace`, visiting each distinct node once."""
    return expr._xreplace(_Replacement(rule))[0]


def every_node(*exprs: Expr) -> Iterator[Expr]:
    """Each distinct node of some expressions once, operands first; SymPy's `atoms` visits a node at every use."""
    seen: set[Any] = set()
    stack = [(expr, False) for expr in reversed(exprs)]
    while stack:
        node, entered = stack.pop()
        if entered:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            operands = node._depends_on() if isinstance(node, _Shared) else node.args
            stack.extend((operand, False) for operand in reversed(operands))


def tables_of(*exprs: Expr) -> Iterator[Table]:
    """Each distinct `Table` in some expressions once."""
    return (node for node in every_node(*exprs) if isinstance(node, Table))


class _IntegerNode(_Shared, Expr):
    """An integer-valued node over integer arguments; its assumptions are class constants, so querying them is free."""

    __slots__ = ("__weakref__", "_symbols")
    is_commutative = True
    is_integer = True
    is_number = False
    operation: ClassVar[IntegerOperation]
    symbol: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        row = OPERATIONS.get(cls.__name__)
        if row is not None:
            cls.operation, cls.symbol = row, row.symbol

    def __new__(cls, *args: IndexLike) -> Expr:
        args = tuple(map(sympy.sympify, args))
        folded = cls.fold(*args)
        return cls._unique(Expr, *args) if folded is None else folded

    @classmethod
    def fold(cls, *args: Expr) -> Expr | None:
        """The value where the arguments alone determine it, or None. Raises ExpressionError where there is none."""
        if not all(a.is_Integer for a in args):
            return None
        numbers = tuple(map(int, args))
        undefined = cls.operation.undefined
        if undefined is not None and undefined.where(*numbers):
            raise ExpressionError(f"{undefined.reason} in {cls.symbol} of {', '.join(map(str, numbers))}")
        return Integer(cls.operation.compute(*numbers))

    def _eval_is_finite(self) -> bool:
        return True


class _Infix(_IntegerNode):
    """A binary operation printed between its operands."""

    __slots__ = ()
    precedence = PRECEDENCE["Add"]  # so that a product with a negative factor puts it in parentheses too

    def _sympystr(self, printer: StrPrinter) -> str:
        left, right = self.args
        return (
            f"{printer.parenthesize(left, PRECEDENCE['Mul'], strict=True)} {self.symbol} "
            f"{printer.parenthesize(right, PRECEDENCE['Mul'], strict=False)}"
        )


class FloorDiv(_Infix):
    """`x // d`, rounded towards minus infinity, for every integer x and d != 0."""

    __slots__ = ()

    @classmethod
    def fold(cls, x: Expr, d: Expr) -> Expr | None:
        if d.is_Integer and int(d) == 0:
            raise ExpressionError(f"division by zero in {x} // 0")
        if d is sympy.S.One or x is sympy.S.Zero:
            return x
        if d is sympy.S.NegativeOne:
            return -x
        return super().fold(x, d)


class FloorMod(_Infix):
    """`x % d`, with the sign of d: `x == d*(x // d) + x % d` for every integer x and d != 0."""

    __slots__ = ()

    @classmethod
    def fold(cls, x: Expr, d: Expr) -> Expr | None:
        if d.is_Integer and int(d) == 0:
            raise ExpressionError(f"division by zero in {x} % 0")
        if d in (1, -1) or x is sympy.S.Zero:
            return sympy.S.Zero
        return super().fold(x, d)


class _Bitwise(_Infix):
    """A bit operation on two's complement integers of unbounded width, as Python's."""

    __slots__ = ()
    precedence = PRECEDENCE["Or"]  # Python binds shifts and bits looser than +: in parentheses below anything else

    def _sympystr(self, printer: StrPrinter) -> str:
        left, right = (printer.parenthesize(a, PRECEDENCE["Atom"], strict=True) for a in self.args)
        return f"{left} {self.symbol} {right}"


class BitXor(_Bitwise):
    """`a ^ b`, bit by bit exclusive or."""

    __slots__ = ()

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr | None:
        if a is sympy.S.Zero:
            return b
        if b is sympy.S.Zero:
            return a
        if a == b:
            return sympy.S.Zero
        for one, other in ((a, b), (b, a)):
            if isinstance(one, BitXor) and other in one.args:  # (x ^ y) ^ y
                return one.args[0] if one.args[1] == other else one.args[1]
        return super().fold(a, b)


class BitAnd(_Bitwise):
    """`a & b`, bit by bit and."""

    __slots__ = ()

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr | None:
        if a is sympy.S.Zero or b is sympy.S.Zero:
            return sympy.S.Zero
        return a if a == b else super().fold(a, b)


class BitOr(_Bitwise):
    """`a | b`, bit by bit or."""

    __slots__ = ()

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr | None:
        if a is sympy.S.Zero:
            return b
        if b is sympy.S.Zero:
            return a
        return a if a == b else super().fold(a, b)


class _Shift(_Bitwise):
    """A shift by an amount n >= 0."""

    __slots__ = ()

    @classmethod
    def fold(cls, x: Expr, n: Expr) -> Expr | None:
        if n.is_Integer and int(n) < 0:
            raise ExpressionError(f"negative shift in {x} {cls.symbol} {n}")
        if n is sympy.S.Zero or x is sympy.S.Zero:
            return x
        return super().fold(x, n)


class ShiftLeft(_Shift):
    """`x << n`, that is x times 2**n, for n >= 0."""

    __slots__ = ()


class ShiftRight(_Shift):
    """`x >> n`, the arithmetic shift, that is the floor of x over 2**n, for n >= 0."""

    __slots__ = ()


class _Call(_IntegerNode):
    """An operation printed as a call."""

    __slots__ = ()

    def _sympystr(self, printer: StrPrinter) -> str:
        return f"{self.symbol}({', '.join(printer._print(a) for a in self.args)})"


class ISqrt(_Call):
    """The floor of the square root of x, for x >= 0."""

    __slots__ = ()

    @classmethod
    def fold(cls, x: Expr) -> Expr | None:
        if x.is_Integer and int(x) < 0:
            raise ExpressionError(f"isqrt of the negative number {x}")
        return super().fold(x)


class Smaller(_Call):
    """The smaller of two integers (SymPy's own Min sorts, factors and queries assumptions)."""

    __slots__ = ()

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr | None:
        return a if a == b else super().fold(a, b)


class Larger(_Call):
    """The larger of two integers."""

    __slots__ = ()

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr | None:
        return a if a == b else super().fold(a, b)


class Select(_Call):
    """`where(condition, a, b)`: a if the condition holds, else b. Both are evaluated, so neither may fail."""

    __slots__ = ()

    @classmethod
    def fold(cls, condition: Boolean, a: Expr, b: Expr) -> Expr | None:
        if condition == True:  # noqa: E712  SymPy's true is not Python's
            return a
        if condition == False:  # noqa: E712
            return b
        return a if a == b else None


class Table(_IntegerNode):
    """`name[i]`: element i of a table of integers, constant or passed at run time.

    `entries` is a tuple of ints (printed as a constant table), or empty for a table that the caller passes at run time
    under `name`; `length` is its number of elements, and every element lies in [0, bound).
    """

    __slots__ = ()

    def __new__(
        cls, name: str | Symbol, index: IndexLike, length: IndexLike, bound: IndexLike, entries: Sequence[int] = ()
    ) -> Expr:
        name = name if isinstance(name, sympy.Symbol) else sympy.Symbol(str(name))
        entries = entries if isinstance(entries, sympy.Tuple) else sympy.Tuple(*map(int, entries))
        index = sympy.sympify(index)
        if index.is_Integer and len(entries):
            if not 0 <= int(index) < len(entries):
                raise ExpressionError(f"{name}[{index}] is outside the table's {len(entries)} entries")
            return entries[int(index)]
        return cls._unique(Expr, name, index, sympy.sympify(length), sympy.sympify(bound), entries)

    @property
    def name(self) -> str:
        return str(self.args[0])

    @property
    def index(self) -> Expr:
        return self.args[1]

    @property
    def length(self) -> Expr:
        return self.args[2]

    @property
    def bound(self) -> Expr:
        return self.args[3]

    @property
    def entries(self) -> tuple[int, ...]:
        return tuple(map(int, self.args[4]))

    def _depends_on(self) -> tuple[Expr, ...]:
        return (self.index, self.length, self.bound)  # the table's name is not a symbol of the expression

    def _sympystr(self, printer: StrPrinter) -> str:
        return f"{self.name}[{printer._print(self.index)}]"


class _Comparison(_Shared, Boolean):
    """A comparison of two integers, folded only for constants and for equal operands."""

    __slots__ = ("__weakref__", "_symbols")
    symbol: ClassVar[str]
    equal_operands: ClassVar[bool]
    holds: ClassVar[Callable[[IndexLike, IndexLike], IndexLike]]
    """The comparison on Python ints or NumPy arrays."""
    precedence = PRECEDENCE["Relational"]

    def __new__(cls, a: IndexLike, b: IndexLike) -> Expr:
        a, b = sympy.sympify(a), sympy.sympify(b)
        if a == b:
            return sympy.true if cls.equal_operands else sympy.false
        if a.is_Integer and b.is_Integer:
            return sympy.true if cls.holds(int(a), int(b)) else sympy.false
        return cls._unique(Boolean, a, b)

    def _sympystr(self, printer: StrPrinter) -> str:
        left, right = (printer.parenthesize(a, PRECEDENCE["Relational"]) for a in self.args)
        return f"{left} {self.symbol} {right}"


class Lt(_Comparison):
    """`a < b`."""

    __slots__ = ()
    symbol, equal_operands, holds = "<", False, operator.lt


class Le(_Comparison):
    """`a <= b`."""

    __slots__ = ()
    symbol, equal_operands, holds = "<=", True, operator.le


class Eq(_Comparison):
    """`a == b`."""

    __slots__ = ()
    symbol, equal_operands, holds = "==", True, operator.eq


class Ne(_Comparison):
    """`a != b`."""

    __slots__ = ()
    symbol, equal_operands, holds = "!=", False, operator.ne


class Size(sympy.Symbol):
    """A size known only at run time: a kernel argument with a range and a divisor.

    `min <= size`, `size <= max` where a max is given, and `size % multiple_of == 0`. `below` is an expression of other
    sizes that it does not exceed, `equals` one that gives its value. Two sizes are the same only if their name and all
    their facts agree.
    """

    __slots__ = ("below", "equals", "max", "min", "multiple_of")
    min: int
    max: int | None
    multiple_of: int
    below: Expr | None
    equals: Expr | None

    def __new__(
        cls,
        name: str,
        min: int = 1,
        max: int | None = None,
        multiple_of: int = 1,
        below: Expr | None = None,
        equals: Expr | None = None,
    ) -> Size:
        obj: Size = sympy.Symbol.__xnew__(cls, name, integer=True, **({"positive": True} if min > 0 else {}))
        obj.min, obj.max, obj.multiple_of, obj.below, obj.equals = min, max, multiple_of, below, equals
        return obj

    @property
    def least(self) -> int:
        """The smallest value: `min`, or the first multiple of `multiple_of` above it."""
        return -(-self.min // self.multiple_of) * self.multiple_of

    @property
    def facts(self) -> str:
        """The facts of the size, in the form of `lego.size`'s arguments."""
        if self.equals is not None:
            return f"equals={self.equals}"
        most = self.max if self.below is None else self.below
        found = [f"min={self.min}"] + ([] if most is None else [f"max={most}"])
        return ", ".join(found + ([f"multiple_of={self.multiple_of}"] if self.multiple_of > 1 else []))

    def takes(self, value: int) -> bool:
        """Whether the size may have this value."""
        return self.min <= value and (self.max is None or value <= self.max) and value % self.multiple_of == 0

    def __getnewargs_ex__(self) -> Any:
        facts = {"min": self.min, "max": self.max, "multiple_of": self.multiple_of}
        return ((self.name,), {**facts, "below": self.below, "equals": self.equals})

    def __getstate__(self) -> None:
        return None

    def _hashable_content(self) -> Any:
        facts = (self.min, -1 if self.max is None else self.max, self.multiple_of)
        return (*super()._hashable_content(), *facts, *self._relation())

    def _relation(self) -> tuple[str, ...]:
        """The relation as text, with the facts of the sizes in it: SymPy orders symbols by their content."""
        ends = [(kind, end) for kind, end in (("below", self.below), ("equals", self.equals)) if end is not None]
        return tuple(
            f"{kind} {end} ({'; '.join(f'{s}: {s.facts}' for s in sorted(end.free_symbols, key=str))})"
            for kind, end in ends
        )


class Divisor(Size):
    """A size that generated code divides by with a multiplication: its reciprocal is a size as well.

    It is that of `expr.reciprocal`, for dividends below 2**31. Everywhere else it is the size itself.
    """

    __slots__ = ()

    @property
    def reciprocal(self) -> Size:
        """The size `<name>_reciprocal`: the multiplier in its low word, the shift in its high word."""
        return Size(f"{self.name}_reciprocal", (31 << 32) + 1, (62 << 32) + 2**32 - 1)


@cacheit  # type: ignore[untyped-decorator]
def canonical(expr: Expr) -> Expr:
    """A SymPy expression in this module's nodes: `floor(a/b)`, `Mod`, `Min`, `Max`, `Piecewise`, relations and `Xor`.

    Raises ExpressionError for a node without an integer meaning, such as a rational or a sine.
    """
    expr = sympy.sympify(expr)
    if expr.is_Symbol or expr.is_Integer or expr in (sympy.true, sympy.false):
        return expr
    if isinstance(expr, sympy.floor):
        numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
        return FloorDiv(canonical(numerator), canonical(denominator))
    if isinstance(expr, sympy.ceiling):
        return -canonical(sympy.floor(-expr.args[0]))
    if isinstance(expr, sympy.Piecewise):
        *cases, (value, condition) = expr.args
        if condition != True:  # noqa: E712
            raise ExpressionError(f"{expr} has no case for every value; end it with (value, True)")
        result = canonical(value)
        for value, condition in reversed(cases):
            result = Select(canonical(condition), canonical(value), result)
        return result
    if isinstance(expr, Table):
        return Table(expr.args[0], canonical(expr.index), canonical(expr.length), expr.bound, expr.args[4])
    rebuild = _CANONICAL.get(type(expr))
    if rebuild is None and isinstance(expr, (_IntegerNode, _Comparison, sympy.And, sympy.Or, sympy.Not)):
        rebuild = type(expr)
    if rebuild is not None:
        return rebuild(*map(canonical, expr.args))
    if isinstance(expr, (sympy.Add, sympy.Mul)):
        if any(a.is_Rational and not a.is_Integer for a in expr.args):
            raise ExpressionError(f"{expr} is not an integer expression; write integer division as //")
        args = tuple(map(canonical, expr.args))
        return expr if args == expr.args else expr.func(*args)  # rebuilding 4*(i + j) would distribute the 4
    if isinstance(expr, sympy.Pow) and expr.exp.is_Integer and int(expr.exp) > 0:
        return sympy.Pow(canonical(expr.base), expr.exp)
    raise ExpressionError(f"{type(expr).__name__} has no integer meaning in the index expression {expr}")


def _fold_pairs(node: NodeType) -> Callable[..., Expr]:
    return lambda *args: reduce(node, args)


_CANONICAL: dict[type[Any], Any] = {
    sympy.Mod: FloorMod,
    sympy.Min: _fold_pairs(Smaller),
    sympy.Max: _fold_pairs(Larger),
    sympy.Xor: _fold_pairs(BitXor),
    sympy.StrictLessThan: Lt,
    sympy.LessThan: Le,
    sympy.StrictGreaterThan: lambda a, b: Lt(b, a),
    sympy.GreaterThan: lambda a, b: Le(b, a),
    sympy.Equality: Eq,
    sympy.Unequality: Ne,
}

OPERATION_NODES: tuple[type[Any], ...] = (
    FloorDiv, FloorMod, BitXor, BitAnd, BitOr, ShiftLeft, ShiftRight, ISqrt, Smaller, Larger, Select,
)  # fmt: skip
INTEGER_NODES: tuple[type[Any], ...] = (*OPERATION_NODES, Table)
COMPARISONS: tuple[type[Any], ...] = (Lt, Le, Eq, Ne)
OF_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg,
    **{node.operation.name: node for node in OPERATION_NODES},
    "eq": Eq, "ne": Ne, "lt": Lt, "le": Le, "gt": lambda a, b: Lt(b, a), "ge": lambda a, b: Le(b, a),
}  # fmt: skip
"""The expression of an operator by its name, of expressions of its operands."""
