r"""Index expressions as text: one language for manifests, tile orders and access patterns.

The syntax and the meaning are Python's, restricted to integer arithmetic; `//` and `%` floor. A text has one or more
parts, separated by commas:

| syntax | operators |
|---|---|
| names, integers | `M`, `32` |
| arithmetic | `a + b`, `a - b`, `a * b`, `a // b`, `a % b`, `a ** n`, `-a` |
| bits | `a ^ b`, `a & b`, `a \| b`, `a << n`, `a >> n` |
| comparisons, 0 or 1 | `a < b`, `a <= b`, `a > b`, `a >= b`, `a == b`, `a != b` |
| calls | `isqrt(a)`, `minimum(a, b)`, `maximum(a, b)`, `where(condition, a, b)` |

`write` prints an expression. `parse` reads a text into steps in postfix order, and `IndexText.fold` executes the steps
with the operations supplied by its caller: on ints or arrays, or as operations of MLIR. Reading needs neither SymPy nor
NumPy, so a machine that only runs kernels can do it.

>>> from lego_mlir.expr.index import cdiv
>>> from lego_mlir.expr.sizes import size
>>> write(cdiv(size("M"), 32))
'((M + 31) // 32)'
>>> evaluate("((M + 31) // 32)", {"M": 100})
4
>>> calls = {"%": "rem({}, {})".format, "*": "mul({}, {})".format, "^": "xor({}, {})".format}
>>> parse("line, place ^ line % 8 * 8").fold({"line": "%0", "place": "%1"}, str, calls)
('%0', 'xor(%1, mul(rem(%0, 8), 8))')
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from lego_mlir import syntax_tree
from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import ExpressionError, PrintError, brief
from lego_mlir.expr.integer_operations import CALLS, OPERATIONS

T = TypeVar("T")
MOST_SHIFTED: Final = 64
"""The largest shift amount and exponent that is an int: sizes are 64-bit integers."""
MOST_BITS: Final = 1024
"""Bits of the largest value on the way; products and powers of powers would exhaust time and memory."""


@dataclass(frozen=True, slots=True)
class OperatorStep:
    """A step that replaces the topmost values of the stack by one: the symbol in the text, the number of operands."""

    symbol: str
    operands: int


Step = int | str | OperatorStep
"""A constant, a name, or an operator."""

_BINARY: Final[dict[type[ast.operator | ast.cmpop], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitXor: "^", ast.BitAnd: "&", ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
NEGATION: Final = "-a"
OPERATORS: Final = (*_BINARY.values(), NEGATION, *CALLS)
ARITHMETIC: Final = ("+", "-", "*", "//", "%", "^", "&", "|", "<<", ">>")


@dataclass(frozen=True, slots=True)
class IndexText:
    """A parsed text: one sequence of steps for each part, in postfix order."""

    parts: tuple[tuple[Step, ...], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names that occur in it."""
        return frozenset(step for part in self.parts for step in part if isinstance(step, str))

    def fold(
        self, names: Mapping[str, T], constant: Callable[[int], T], operations: Mapping[str, Callable[..., T]]
    ) -> tuple[T, ...]:
        """The value of each part. `operations` are keyed by the symbol of their operator."""
        return tuple(_value(part, names, constant, operations) for part in self.parts)


def _value(
    part: tuple[Step, ...],
    names: Mapping[str, T],
    constant: Callable[[int], T],
    operations: Mapping[str, Callable[..., T]],
) -> T:
    stack: list[T] = []
    for step in part:
        if isinstance(step, OperatorStep):
            operands = stack[-step.operands :]
            stack[-step.operands :] = [operations[step.symbol](*operands)]
        else:
            stack.append(constant(step) if isinstance(step, int) else names[step])
    return stack[0]


def parse(text: str, names: Collection[str] | None = None, operators: Collection[str] = OPERATORS) -> IndexText:
    """The steps of a text over the given names, or over any names, with the given operators.

    Raises ExpressionError with the part that is not in the language.

    >>> parse("M / 2")
    Traceback (most recent call last):
        ...
    lego_mlir.errors.ExpressionError: 'M / 2' is not integer arithmetic; use names, integers and + - * // % ...
    """
    try:
        tree = syntax_tree.parse(text.strip(), mode="eval").body
        parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
        found = IndexText(tuple(_steps(part, operators) for part in parts))
    except ExpressionError:
        raise
    except (SyntaxError, ValueError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(f"{brief(repr(text))} is not an expression ({reason})") from None
    except (RecursionError, MemoryError):
        raise ExpressionError(f"{brief(repr(text))} is nested too deeply") from None
    for name in (step for part in found.parts for step in part if isinstance(step, str)):
        if names is not None and name not in names:
            raise ExpressionError(f"{brief(repr(text))} uses the unknown name {name}; known: {', '.join(names)}")
    return found


def _steps(part: ast.expr, operators: Collection[str]) -> tuple[Step, ...]:
    """A syntax tree in postfix order, without recursion: a sum may have thousands of terms."""
    found: list[Step] = []
    rest = [part]
    while rest:
        node = rest.pop()
        step, operands = _step(node)
        if step is None or (isinstance(step, OperatorStep) and step.symbol not in operators):
            raise ExpressionError(
                f"{brief(repr(ast.unparse(node)))} is not integer arithmetic; use names, integers and "
                f"{' '.join(symbol for symbol in OPERATORS if symbol in operators)}"
            )
        found.append(step)
        rest.extend(operands)
    return tuple(reversed(found))


def _step(node: ast.expr) -> tuple[Step | None, list[ast.expr]]:
    """The step of one node, and the nodes of its operands; None for a node outside the language."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value, []
        case ast.Name(id=name):
            return name, []
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return OperatorStep(NEGATION, 1), [operand]
        case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
            symbol = _BINARY.get(type(op))
            return (None if symbol is None else OperatorStep(symbol, 2)), [left, right]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            fits = name in CALLS and CALLS[name].operands == len(arguments)
            return (OperatorStep(name, len(arguments)) if fits else None), arguments
    return None, []


def evaluate(text: str, sizes: Mapping[str, int]) -> int:
    """The value of a text of one part for these sizes.

    Raises ExpressionError for any other text, a division by 0, the root of a negative number, and a shift amount or an
    exponent outside 0 .. 64.
    """
    parsed = parse(text, sizes)
    if len(parsed.parts) != 1:
        raise ExpressionError(f"{brief(repr(text))} has {len(parsed.parts)} parts instead of one")
    try:
        return int(parsed.fold(sizes, int, PYTHON)[0])
    except (ZeroDivisionError, ValueError) as error:
        raise ExpressionError(f"{brief(repr(text))}: {error}") from None


def _bounded(operation: Callable[[T, T], T], bits: Callable[[int, int], int]) -> Callable[[T, T], T]:
    """The operation on ints with a result of at most MOST_BITS; `bits` is a bound from the operands."""

    def bounded(a: T, b: T) -> T:
        if isinstance(a, int) and isinstance(b, int) and bits(a.bit_length(), b) > MOST_BITS:
            raise ExpressionError(f"a value on the way has more than {MOST_BITS} bits; sizes are 64-bit integers")
        return operation(a, b)

    return bounded


def _limited(operation: Callable[[T, T], T]) -> Callable[[T, T], T]:
    """The operation with a limit on its second operand, a shift amount or an exponent."""

    def limited(a: T, b: T) -> T:
        if isinstance(b, int) and not 0 <= b <= MOST_SHIFTED:
            raise ExpressionError(f"a shift amount or an exponent is {b}; it must be within 0 .. {MOST_SHIFTED}")
        return operation(a, b)

    return limited


PYTHON: Final[dict[str, Callable[..., Any]]] = {
    **{operation.symbol: operation.compute for operation in OPERATIONS.values()},
    **{symbol: operation.of for symbol, operation in CALLS.items()},
    "+": operator.add, "-": operator.sub, "*": _bounded(operator.mul, lambda bits, b: bits + b.bit_length()),
    "**": _limited(_bounded(operator.pow, lambda bits, b: bits * b)),
    "<<": _limited(_bounded(operator.lshift, lambda bits, b: bits + b)), ">>": _limited(operator.rshift),
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    NEGATION: operator.neg,
}  # fmt: skip
"""Operations on ints; those of `ARITHMETIC` apply to arrays and to expressions as well."""
ON_ARRAYS: Final = PYTHON | {symbol: operation.of_arrays for symbol, operation in CALLS.items()}
"""Operations on arrays of int64."""


# -- writing

_WRITTEN: Final = {
    **{node: operation.symbol for node, operation in OPERATIONS.items()},
    "Add": "+", "Mul": "*", "Pow": "**", "Lt": "<", "Le": "<=", "Eq": "==", "Ne": "!=", "And": "&", "Or": "|",
}  # fmt: skip


def write(expr: IndexLike) -> str:
    """The text of an integer expression, fully parenthesized. Raises PrintError for a node outside the language."""
    from lego_mlir.expr.index import as_expr

    return _written(as_expr(expr))


def _written(expr: Expr) -> str:
    if expr.is_Symbol:
        return str(expr.name)
    if expr.is_Integer:
        return str(int(expr)) if expr >= 0 else f"({int(expr)})"
    name = type(expr).__name__
    if name == "Not":
        return f"(1 - {_written(expr.args[0])})"
    if name not in _WRITTEN:
        raise PrintError(f"no form for {name} in {brief(expr)}; a text is integer arithmetic on names")
    arguments = [_written(argument) for argument in expr.args]
    if name in ("Add", "Mul"):  # SymPy's order puts constants first; a reader expects them last
        arguments.sort(key=lambda text: text.lstrip("(-").isdigit() or text.startswith("(-"))
    symbol = _WRITTEN[name]
    return f"{symbol}({', '.join(arguments)})" if symbol in CALLS else f"({f' {symbol} '.join(arguments)})"
