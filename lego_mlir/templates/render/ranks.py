"""Check the ranks of a Triton text's variables against their declarations as `index` or `block`.

An index is a scalar, or a vector if `block` declares it. A vector used as a scalar index is not broadcast against the
slice's axes: where the lengths agree, the kernel runs with wrong addresses. So ranks are inferred from the rendered
text: `tl.arange`, loads at a block of addresses and values computed from them have axes; a variable of unknown rank is
not checked.

>>> text = "def f(p):\\n    r = tl.load(p + tl.arange(0, 8))\\n    n = tl.sum(r)\\n    m = tl.program_id(0) + 1"
>>> [(name, rank, line) for name, rank, line in assigned(ast.parse(text))]
[('r', 1, 2), ('m', 0, 4)]
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir import syntax_tree
from lego_mlir.aliases import Symbol
from lego_mlir.errors import TemplateError
from lego_mlir.expr.nodes import Size
from lego_mlir.templates.render.blocks import BlockSymbol, blocks_in

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Placeholder

ELEMENTWISE: Final = frozenset(
    ("load", "cast", "abs", "minimum", "maximum", "where", "multiple_of", "max_contiguous", "cdiv")
)

NONE: Final[Mapping[str, int]] = {}


def assigned(tree: ast.AST, declared: Mapping[str, int] = NONE) -> Iterator[tuple[str, int, int]]:
    """Assigned variables of known rank, in order: name, rank, line."""
    known = dict(declared)
    for node in sorted((n for n in ast.walk(tree) if isinstance(n, ast.Assign)), key=lambda n: n.lineno):
        for target, value in _pairs(node):
            rank = _rank(value, known)
            known.pop(target, None)
            if rank is not None:
                known[target] = rank
                yield target, rank, node.lineno


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    """The targets of an assignment, each with its value's expression."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            yield target.id, node.value
        elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for part, value in zip(target.elts, node.value.elts, strict=False):
                if isinstance(part, ast.Name):
                    yield part.id, value


def _rank(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """The rank of a value; None if unknown."""
    match node:
        case ast.Constant():
            return 0
        case ast.Name(id=name):
            return known.get(name)
        case ast.UnaryOp(operand=operand):
            return _rank(operand, known)
        case ast.BinOp():
            return _widest(list(_chain(node)), known)
        case ast.Compare(left=left, comparators=others):
            return _widest([left, *others], known)
        case ast.Subscript(slice=ast.Tuple(elts=places)):
            whole = all(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value is None) for p in places)
            return len(places) if whole else None
        case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr=word), args=arguments):
            if word in ELEMENTWISE:
                return _widest(
                    arguments[: 1 if word in ("load", "cast", "multiple_of", "max_contiguous") else 3], known
                )
            return {"arange": 1, "program_id": 0, "num_programs": 0}.get(word)
        case ast.Call(func=ast.Attribute(value=value, attr="to")):
            return _rank(value, known)
    return None


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of `a + b + c`, without recursion: sums may have thousands of terms."""
    while isinstance(node, ast.BinOp):
        yield node.right
        node = node.left
    yield node


def _widest(nodes: Sequence[ast.expr], known: Mapping[str, int]) -> int | None:
    """The rank of broadcast values: the largest; None if an operand of unknown rank could exceed it."""
    ranks = [_rank(node, known) for node in nodes]
    most = max((r for r in ranks if r is not None), default=None)
    return most if most or None not in ranks else None


def require_declared(
    name: str, text: str, used: Mapping[int, Sequence[Placeholder]], every: Sequence[Placeholder]
) -> None:
    """Reject an index that is a scalar in a placeholder and a vector in the surrounding kernel, or the reverse.

    `used` maps text lines to placeholders, `every` includes those of assignments. Raises TemplateError with the
    template's line.
    """
    vectors = {str(s): 1 for p in every for s in blocks_in(p.raw)}
    for function in (n for n in ast.walk(syntax_tree.parse(text)) if isinstance(n, ast.FunctionDef)):
        lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
        placeholders = [p for line in lines for p in used.get(line, ())]
        symbols = {str(s): (s, p) for p in reversed(placeholders) for s in _indices(p)}
        for variable, rank, _ in assigned(function, vectors):
            symbol, placeholder = symbols.get(variable, (None, None))
            if placeholder is None or rank == (1 if isinstance(symbol, BlockSymbol) else 0):
                continue
            is_a = f"a block of {rank} axes" if rank > 1 else ("one number", "a block")[rank]
            declared = "a block" if isinstance(symbol, BlockSymbol) else "one number"
            remedy = f"index({variable!r}, ..)" if rank == 0 else f"block({variable!r}, length, ..)"
            remedy = "index with vectors, and let the layout broadcast them" if rank > 1 else f"declare it {remedy}"
            raise TemplateError(
                f"{name}:{placeholder.line}: {variable} is declared as {declared}, and the kernel assigns {is_a} to "
                f"it; {remedy}"
            )


def require_kept(name: str, text: str, sizes: Collection[str]) -> None:
    """Reject a size parameter that the kernel's text reassigns, as a loop variable for example.

    A statement that updates it, `M = M // 8 * 8`, is allowed. Raises TemplateError.
    """
    for function in (n for n in ast.walk(syntax_tree.parse(text)) if isinstance(n, ast.FunctionDef)):
        given = {argument.arg for argument in function.args.args} & set(sizes)
        for node in ast.walk(function):
            if isinstance(node, ast.For):
                changed = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
            elif isinstance(node, ast.Assign):
                changed = {target for target, value in _pairs(node) if not _mentions(value, target)}
            else:
                continue
            if taken := sorted(changed & given):
                raise TemplateError(
                    f"{name}: {taken[0]} is a size and a parameter of {function.name}, and the kernel gives it another "
                    "value; rename the size or the variable"
                )


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


def _indices(placeholder: Placeholder) -> set[Symbol]:
    """The index variables that a placeholder uses, without its axes."""
    axes = {symbol for symbol, _ in placeholder.axes}
    return {s for s in placeholder.raw.free_symbols if not isinstance(s, Size)} - axes
