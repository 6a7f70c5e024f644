"""Sizes of a launch that follow from the shapes of its arrays.

Each dimension of an array is an equation between an extent of the manifest and a number. An equation that is linear in
one unknown size gives it; equations are taken until none gives another size.

>>> derive([("M", 100, "a"), ("(2 * N)", 64, "a")], {})
{'M': 100, 'N': 32}
>>> derive([("((M + 31) // 32)", 4, "grid")], {})  # 97 .. 128
{}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from lego_mlir.runtime.manifest import Extent, evaluate

if TYPE_CHECKING:
    from lego_mlir.expr.text import IndexText

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
    if not _is_linear(extent, name):
        return None
    start = evaluate(extent, {**known, name: 0})
    step = evaluate(extent, {**known, name: 1}) - start
    if step == 0 or (value - start) % step:
        return None
    return (value - start) // step


@cache
def names_in(extent: str) -> frozenset[str]:
    """The sizes of an extent."""
    return _parsed(extent).names


@cache
def _parsed(extent: str) -> IndexText:
    from lego_mlir.expr.text import parse  # most extents are ints, and need no reader

    return parse(extent)


def _is_linear(extent: str, name: str) -> bool:
    """Whether the size is in one place, below additions and multiplications only."""
    from lego_mlir.expr.text import NEGATION, OPERATORS

    operations = dict.fromkeys(OPERATORS, _not_linear) | dict.fromkeys(("+", "-", "*", NEGATION), _degree)
    (degree,) = _parsed(extent).fold({n: int(n == name) for n in names_in(extent)}, lambda _: 0, operations)
    return degree == 1


def _degree(*operands: int) -> int:
    """0 without the size, 1 if linear in it, 2 for more."""
    return min(2, sum(operands))


def _not_linear(*operands: int) -> int:
    return 2 if any(operands) else 0
