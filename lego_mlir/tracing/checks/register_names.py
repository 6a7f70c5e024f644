"""Second names of registers: a warning where a register that later changes was given another name.

    old = best                 `old` is the register too, not its value at this point
    best.set(x)                and has changed: the snapshot is `old = best.value`

Python binds a name without a trace, so that the function's text is read: a name that `lego.register(..)` was assigned
to, or an entry of a list, tuple or dict of registers, assigned as it is to another name, and changed afterwards.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType
from typing import Final

from lego_mlir.errors import RegisterWarning
from lego_mlir.syntax_tree import parse
from lego_mlir.tracing.trace.spec_line import Source

MOST_KEPT: Final = 1024
"""Functions whose texts are not read again."""


def warn_of_second_names(function: Callable[..., object]) -> None:
    """Warn of each second name of a register that is changed after it got that name."""
    code = function.__code__
    for name, register, line in _found(code):
        message = (
            f"{Source(code.co_filename, line)}: {name} is a second name of the register {register}, and changes with "
            f"it; for its present value write {name} = {register}.value"
        )
        warnings.warn(message, RegisterWarning, stacklevel=2)


@lru_cache(maxsize=MOST_KEPT)
def _found(code: CodeType) -> tuple[tuple[str, str, int], ...]:
    """Second names, the register, and the line, of a function's text: read once for all kernels that it makes."""
    first = code.co_firstlineno  # inspect.getsourcelines looks for the module first, among all that are loaded
    try:
        lines = inspect.getblock(linecache.getlines(code.co_filename)[first - 1 :])
        tree = parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return ()  # a function without a text, or with one that is not a statement
    return tuple((name, register, first + line - 1) for name, register, line in _second_names(tree))


def _second_names(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Second names, the register, and the line."""
    bound = list(_bound(tree))
    first = {name: name for name, value, _ in bound if _is_register(value)}
    held = {name for name, value, _ in bound if _holds_registers(value)}
    second = []
    for name, value, line in bound:  # in the order of the text: names of names too
        text = _named(value)
        if isinstance(value, ast.Subscript) and _named(value.value) in held:
            first.setdefault(text, text)
        if text in first:
            first[name] = first[text]
            second.append((name, text, line))
    for name, register, line in second:
        if _is_changed(tree, {other for other in first if first[other] == first[name]}, line):
            yield name, register, line


def _bound(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    """Each name that a statement or `:=` binds, the expression, and the line."""
    for node in sorted(
        (node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr)),
        key=lambda node: (node.lineno, node.col_offset),
    ):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if node.value is not None:
                yield from ((name, value, node.lineno) for name, value in _paired(target, node.value))


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names of a target with their expressions; none where names are only exchanged, as in `a, b = b, a`."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        names, values = (sorted(map(ast.unparse, of.elts)) for of in (target, value))
        if len(names) == len(values) and names != values:
            for one, given in zip(target.elts, value.elts, strict=True):
                yield from _paired(one, given)


def _is_register(value: ast.expr) -> bool:
    """Whether an expression is `lego.register(..)`."""
    match value:
        case ast.Call(func=ast.Attribute(attr="register") | ast.Name(id="register")):
            return True
    return False


def _holds_registers(value: ast.expr) -> bool:
    """Whether an expression is a list, tuple or dict of registers."""
    match value:
        case ast.List(elts=held) | ast.Tuple(elts=held) | ast.Dict(values=held):
            return any(map(_is_register, held))
        case ast.ListComp(elt=each) | ast.DictComp(value=each):
            return _is_register(each)
    return False


def _named(value: ast.expr) -> str:
    """The text of a name, or of an entry of one; "" for another expression."""
    is_entry = isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)
    return ast.unparse(value) if is_entry or isinstance(value, ast.Name) else ""


def _is_changed(tree: ast.Module, names: set[str], after: int) -> bool:
    """Whether one of some names is changed in a later line, or in a loop around this one."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=of, attr="set")) | ast.AugAssign(target=of) if _named(of) in names:
                changed = node.lineno
            case _:
                continue
        if changed > after or _share_a_loop(tree, changed, after):
            return True
    return False


def _share_a_loop(tree: ast.Module, one: int, other: int) -> bool:
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While))
    return any(node.lineno <= min(one, other) and max(one, other) <= (node.end_lineno or 0) for node in loops)
