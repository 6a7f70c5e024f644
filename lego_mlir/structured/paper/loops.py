"""Loop trees: the result of scanning a polyhedral set, and the input of scalar code generation.

A tree consists of `ForLoop`, `Guard`, `Block` and `Instance`; bounds, conditions and statement arguments are the small
expressions `Const`, `Var` and `Op`. Nothing here depends on isl or MLIR, so a tree can be read, counted and executed:

>>> i = Var("i")
>>> tree = ForLoop("i", Const(0), Op("<=", (i, Const(2))), Const(1), Instance("S", (i, Op("+", (i, Const(1))))))
>>> list(instances(tree))
[('S', (0, 1)), ('S', (1, 2)), ('S', (2, 3))]
>>> print(show(tree))
for (i = 0; i <= 2; i += 1)
  S(i, i + 1);
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from lego_mlir.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Const:
    """An integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """An operator of `OPERATORS` on its arguments."""

    op: str
    args: tuple[Expr, ...]


Expr = Const | Var | Op


@dataclass(frozen=True, slots=True)
class ForLoop:
    """`for (var = init; condition; var += step) body`."""

    var: str
    init: Expr
    condition: Expr
    step: Expr
    body: Tree


@dataclass(frozen=True, slots=True)
class Guard:
    """`if (condition) then`, with an optional else branch."""

    condition: Expr
    then: Tree
    otherwise: Tree | None


@dataclass(frozen=True, slots=True)
class Block:
    """Trees in sequence."""

    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of the statement with this name at these indices."""

    statement: str
    indices: tuple[Expr, ...]


Tree = ForLoop | Guard | Block | Instance

# op: (precedence for printing, value)
OPERATORS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "neg": (7, lambda a: -a),
    "*": (6, lambda a, b: a * b),
    "div": (6, lambda a, b: a // b),
    "mod": (6, lambda a, b: a % b),
    "+": (5, lambda a, b: a + b),
    "-": (5, lambda a, b: a - b),
    "<=": (3, lambda a, b: a <= b),
    "<": (3, lambda a, b: a < b),
    ">=": (3, lambda a, b: a >= b),
    ">": (3, lambda a, b: a > b),
    "==": (3, lambda a, b: a == b),
    "and": (2, lambda a, b: a and b),
    "or": (1, lambda a, b: a or b),
    "min": (8, min),
    "max": (8, max),
}


def value(expr: Expr, env: Mapping[str, int]) -> int:
    """The value of the expression for these values of the loop variables."""
    match expr:
        case Const(number):
            return number
        case Var(name):
            return env[name]
        case Op(op, args):
            return int(OPERATORS[op][1](*(value(arg, env) for arg in args)))
        case _:
            assert_never(expr)


def instances(tree: Tree, env: Mapping[str, int] | None = None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The statement instances that the tree runs, in order."""
    env = env or {}
    match tree:
        case Instance(statement, indices):
            yield statement, tuple(value(index, env) for index in indices)
        case Block(children):
            for child in children:
                yield from instances(child, env)
        case Guard(condition, then, otherwise):
            branch = then if value(condition, env) else otherwise
            if branch is not None:
                yield from instances(branch, env)
        case ForLoop(var, init, condition, step, body):
            inner = {**env, var: value(init, env)}
            while value(condition, inner):
                yield from instances(body, inner)
                inner[var] += value(step, inner)
        case _:
            assert_never(tree)


def upper_bound(loop: ForLoop) -> Expr:
    """The exclusive upper bound of an ascending loop. Raises ExpressionError where the condition is not a bound."""
    match loop.condition:
        case Op("<=", (Var(name), bound)) if name == loop.var:
            return Op("+", (bound, Const(1)))
        case Op("<", (Var(name), bound)) if name == loop.var:
            return bound
    raise ExpressionError(f"loop over {loop.var}: condition {text(loop.condition)} is not an upper bound of {loop.var}")


def text(expr: Expr, outer: int = 0) -> str:
    """The expression in C syntax."""
    match expr:
        case Const(number):
            return str(number)
        case Var(name):
            return name
        case Op("neg", (arg,)):
            return "-" + text(arg, 7)
        case Op(("min" | "max" | "div" | "mod") as op, args):
            return f"{op}({', '.join(text(arg) for arg in args)})"
        case Op(op, (left, right)):
            level = OPERATORS[op][0]
            joined = f"{text(left, level)} {op} {text(right, level + 1)}"
            return f"({joined})" if level < outer else joined
    raise ExpressionError(f"no text for {expr}: an operator of two arguments was expected")


def show(tree: Tree, indent: str = "") -> str:
    """The tree as C loops, for reading and for tests."""
    match tree:
        case Instance(statement, indices):
            return f"{indent}{statement}({', '.join(map(text, indices))});"
        case Block(children):
            return "\n".join(show(child, indent) for child in children)
        case Guard(condition, then, otherwise):
            lines = f"{indent}if ({text(condition)})\n{show(then, indent + '  ')}"
            return lines if otherwise is None else f"{lines}\n{indent}else\n{show(otherwise, indent + '  ')}"
        case ForLoop(var, init, condition, step, body):
            head = f"{indent}for ({var} = {text(init)}; {text(condition)}; {var} += {text(step)})"
            return f"{head}\n{show(body, indent + '  ')}"
        case _:
            assert_never(tree)
