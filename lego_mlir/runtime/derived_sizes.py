"""Sizes of a launch that follow from the shapes of its arrays.

Each dimension of an array is an equation between an extent of the manifest and a number. An equation that is linear in
one unknown size gives it; equations are taken until none gives another size.

>>> derive([("M", 100, "a"), ("(2 * N)", 64, "a")], {})
{'M': 100, 'N': 32}
>>> derive([("((M + 31) // 32)", 4, "grid")], {})  # 97 .. 128
{}
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache

from lego_mlir import syntax_tree
from lego_mlir.runtime.manifest import Extent, evaluate

Equation = tuple[Extent, int, str]  # an extent, its value, and the array that has it


def derive(equations: Iterable[Equation], given: Mapping[str, int]) -> dict[str, int]:
    """The given sizes, and all that follow from the equations; a value that contradicts another equation may be one."""
    known, waiting = dict(given), [e for e in equations if isinstance(e[0], str)]
    while True:
        left = []
        for extent, value, where in waiting:
            unknown = names_in(str(extent)) - known.keys()
            found = _solution(str(extent), next(iter(unknown)), value, known) if len(unknown) == 1 else None
            if found is not None:
                known[next(iter(unknown))] = found
            elif unknown:
                left.append((extent, value, where))
        if len(left) == len(waiting):
            return known
        waiting = left


def _solution(extent: str, name: str, value: int, known: Mapping[str, int]) -> int | None:
    """The int for which the extent has this value, if the extent is linear in it and there is one."""
    if not _is_linear(_tree(extent), name):
        return None
    start = evaluate(extent, {**known, name: 0})
    step = evaluate(extent, {**known, name: 1}) - start
    if step == 0 or (value - start) % step:
        return None
    return (value - start) // step


@cache
def names_in(extent: str) -> frozenset[str]:
    """The sizes of an extent."""
    calls = {id(node.func) for node in ast.walk(_tree(extent)) if isinstance(node, ast.Call)}
    return frozenset(n.id for n in ast.walk(_tree(extent)) if isinstance(n, ast.Name) and id(n) not in calls)


@cache
def _tree(extent: str) -> ast.expr:
    return syntax_tree.parse(extent, mode="eval").body


def _is_linear(node: ast.expr, name: str) -> bool:
    """Whether the size is in one place, below additions and multiplications only."""
    match node:
        case ast.Name(id=found):
            return found == name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_linear(operand, name)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            holding = [side for side in (left, right) if name in _names_below(side)]
            return len(holding) == 1 and _is_linear(holding[0], name)
        case _:
            return False


def _names_below(node: ast.expr) -> set[str]:
    return {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
