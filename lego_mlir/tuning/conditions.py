"""Conditions between the names of a search space: a Python function, or the text of an expression.

A function takes the names that it needs as parameters. A text has integers, strings, arithmetic, comparisons, `in`,
`and`, `or` and `not`; nothing else is evaluated, so that a condition of a file can be trusted:

>>> condition = condition_from("tile * tile % threads == 0 and order in ('row', 'column')")
>>> condition.names, condition.holds({"tile": 32, "threads": 256, "order": "row"})
(('order', 'threads', 'tile'), True)
>>> condition_from(lambda tile, stages: tile * stages <= 128).names
('tile', 'stages')
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import CodeType
from typing import Final

from lego_mlir.errors import UsageError, brief

ConditionLike = str | Callable[..., object]

_OPERATORS: Final[dict[type[ast.AST], Callable[..., object]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip
LARGEST_EXPONENT: Final = 64


@dataclass(frozen=True, slots=True)
class SpaceCondition:
    """A condition: the names it reads, its text in messages, and its evaluation."""

    names: tuple[str, ...]
    text: str
    digest: str
    evaluated: Callable[[Mapping[str, object]], object] = field(repr=False, compare=False)

    def holds(self, values: Mapping[str, object]) -> bool:
        """Whether the condition holds for these values. Raises UsageError if its evaluation fails."""
        try:
            return bool(self.evaluated(values))
        except UsageError:
            raise
        except Exception as error:
            given = ", ".join(f"{name}={values[name]!r}" for name in self.names)
            raise UsageError(
                f"the condition '{self.text}' fails at {given}: {type(error).__name__}: {error}"
            ) from error


def condition_from(given: ConditionLike) -> SpaceCondition:
    """A condition from a text or a function. Raises UsageError for anything else, and for unsupported text."""
    if isinstance(given, str):
        tree = _parsed(given)
        names = tuple(sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}))
        return SpaceCondition(names, given, given, lambda values: _value(tree.body, values, given))
    if inspect.isfunction(given):
        function = given
        names = tuple(inspect.signature(function).parameters)
        text = function.__name__ if function.__name__ != "<lambda>" else f"lambda {', '.join(names)}"
        made = sha256(_code_text(function.__code__).encode()).hexdigest()
        return SpaceCondition(names, text, made, lambda values: function(*(values[name] for name in names)))
    raise UsageError(
        f"a condition is a text such as 'tile % 8 == 0' or a function of the names, got {brief(given, 60)}"
    )


def _code_text(code: CodeType) -> str:
    """What a function's result depends on besides its globals."""
    constants = [_code_text(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames}"


def _parsed(text: str) -> ast.Expression:
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"the condition {text!r} is not a Python expression: {error}") from error


def _value(node: ast.AST, values: Mapping[str, object], text: str) -> object:
    """The value of an expression of the supported kinds."""
    match node:
        case ast.Constant(value=int() | float() | str() | None as constant):
            return constant
        case ast.Name(id=name):
            return values[name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return tuple(_value(part, values, text) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            return (
                _OPERATORS[type(op)](_value(operand, values, text)) if type(op) in _OPERATORS else _refuse(node, text)
            )
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _value(left, values, text), _value(right, values, text)
            if isinstance(op, ast.Pow | ast.LShift) and isinstance(b, int) and b > LARGEST_EXPONENT:
                raise UsageError(f"the condition '{text}' computes an exponent of {b}; at most {LARGEST_EXPONENT}")
            return _OPERATORS[type(op)](a, b)
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values, text) for part in parts)
        case ast.BoolOp(op=ast.Or(), values=parts):
            return any(_value(part, values, text) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            chain = [_value(left, values, text), *(_value(other, values, text) for other in others)]
            return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(ops, chain, chain[1:], strict=False))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, values, text) else other, values, text)
    return _refuse(node, text)


def _refuse(node: ast.AST, text: str) -> object:
    raise UsageError(
        f"the condition '{text}' uses '{brief(ast.unparse(node), 40)}'; a text has numbers, strings, arithmetic with "
        "//, comparisons, in, and, or, not; write a function for anything else"
    )
