"""Sizes of a launch that follow from the shapes of its arrays.

Each dimension of an array is an equation between an extent of the manifest and a number. An equation with one unknown
size gives it where it has one solution among the multiples that the size may be; equations are taken until none gives
another size.

>>> derive([("M", 100, "a"), ("(2 * N)", 64, "a")], {})
{'M': 100, 'N': 32}
>>> derive([("((M + 31) // 32)", 4, "grid")], {})  # 97 .. 128
{}
>>> derive([("((M + 31) // 32)", 4, "grid")], {}, {"M": 32})
{'M': 128}
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from lego_mlir.runtime.manifest import Extent, LaunchSize, evaluate

if TYPE_CHECKING:
    from lego_mlir.expr.text import IndexText

_FAR: Final = 1 << 40
"""A size far beyond those of arrays, so that the rise up to it tells the slope to less than a step."""
Equation = tuple[Extent, int, str]  # an extent, its value, and the array that has it


def derive(
    equations: Iterable[Equation], given: Mapping[str, int], multiples: Mapping[str, int] | None = None
) -> dict[str, int]:
    """The given sizes, and all that follow from the equations; a value that contradicts another equation may be one.

    `multiples` has what sizes are known to be multiples of.
    """
    known, waiting = dict(given), [e for e in equations if isinstance(e[0], str)]
    while True:
        left = []
        for extent, value, where in waiting:
            unknown = names_in(str(extent)) - known.keys()
            name = next(iter(unknown)) if len(unknown) == 1 else ""
            steps = dict.fromkeys(((multiples or {}).get(name, 1), 1)) if name else ()  # a wrong size is told as one
            solved = (_solution(str(extent), name, value, known, step) for step in steps)
            found = next((size for size in solved if size is not None), None)
            if found is not None:
                known[name] = found
            elif unknown:
                left.append((extent, value, where))
        if len(left) == len(waiting):
            return known
        waiting = left


def _solution(extent: str, name: str, value: int, known: Mapping[str, int], step: int) -> int | None:
    """The multiple of `step` for which the extent has this value, if it is in one place and there is one such."""
    if not _is_monotone(extent, name):
        return None

    def at(times: int) -> int:
        return evaluate(extent, {**known, name: step * times})

    rise = at(_FAR) - at(0)
    if rise == 0:
        return None
    near = (value - at(0)) * _FAR // rise
    found = [times for times in range(near - 2, near + 4) if at(times) == value]
    alone = len(found) == 1 and value not in (at(found[0] - 1), at(found[0] + 1))
    return step * found[0] if alone else None


def result_strides(
    shape: Sequence[Extent], strides: Sequence[Extent], known: Mapping[str, int], sizes: Mapping[str, LaunchSize]
) -> dict[str, int]:
    """Values for the sizes that the strides of a result have and that nothing else gives: {} where they have none.

    The axes whose strides are known stay; of the others the last one is the closest, each as close as its size may be.

    >>> sizes = {name: LaunchSize(name, 1, None, 8) for name in ("row", "column")}
    >>> result_strides(("M", "N"), ("row", 1), {"M": 3, "N": 5}, sizes)
    {'row': 8}
    >>> result_strides(("M", "N"), (1, "column"), {"M": 3, "N": 5}, sizes)
    {'column': 8}
    """
    found, values = dict(known), {}
    axes = list(zip(shape, strides, strict=True))
    if not names_in(" + ".join(f"({n})" for n in shape)) <= known.keys():
        return {}
    open_ = [(n, s) for n, s in axes if not names_in(str(s)) <= known.keys()]
    reach = max((evaluate(n, known) * evaluate(s, known) for n, s in axes if (n, s) not in open_), default=1)
    for n, stride in reversed(open_):
        unknown = names_in(str(stride)) - found.keys()
        name = next(iter(unknown), "")
        if len(unknown) > 1 or (name and not _is_monotone(str(stride), name)):
            return {}
        if name:
            found[name] = values[name] = _least(str(stride), sizes[name], found, reach)
        reach = max(reach, evaluate(n, found) * evaluate(stride, found))
    return values


def _least(extent: str, size: LaunchSize, known: Mapping[str, int], bound: int) -> int:
    """The least value of a size, as it is declared, for which an extent that rises with it reaches the bound."""
    step = size.multiple_of
    first = max(-(-size.min // step), 1)
    times = range(first, max(first, bound) + 1)
    at = bisect_left(times, bound, key=lambda t: evaluate(extent, {**known, size.name: step * t}))
    return step * times[min(at, len(times) - 1)]


@cache
def names_in(extent: str) -> frozenset[str]:
    """The sizes of an extent."""
    return _parsed(extent).names


@cache
def _parsed(extent: str) -> IndexText:
    from lego_mlir.expr.text import parse  # most extents are ints, and need no reader

    return parse(extent)


def _is_monotone(extent: str, name: str) -> bool:
    """Whether the size is in one place, below additions, multiplications and divisions of it only."""
    from lego_mlir.expr.text import NEGATION, OPERATORS

    operations: dict[str, Callable[..., int]] = dict.fromkeys(OPERATORS, _not_monotone)
    operations |= {**dict.fromkeys(("+", "-", "*", NEGATION), _degree), "//": _divided}
    (degree,) = _parsed(extent).fold({n: int(n == name) for n in names_in(extent)}, lambda _: 0, operations)
    return degree == 1


def _degree(*operands: int) -> int:
    """0 without the size, 1 if monotone in it, 2 for more."""
    return min(2, sum(operands))


def _divided(dividend: int, divisor: int) -> int:
    return 2 if divisor else dividend


def _not_monotone(*operands: int) -> int:
    return 2 if any(operands) else 0
