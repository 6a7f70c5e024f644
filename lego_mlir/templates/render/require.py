"""Argument checks shared by kernel builders and template functions.

A layout of the wrong sizes would render and read wrong elements; a block beyond hardware limits would fail only on the
GPU. So the builders validate their arguments:

>>> require_dims("relayout", "destination", (8, 8), (4, 4))
Traceback (most recent call last):
lego_mlir.errors.TemplateError: relayout: destination must be 4 x 4, got 8 x 8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Size, tables_of
from lego_mlir.expr.ranges import Range
from lego_mlir.hardware.limits import THREADS_PER_BLOCK
from lego_mlir.templates.render.names import Language


def require_positive(kernel: str, **numbers: IndexLike) -> None:
    """Require every number to be at least 1; a `lego.size` is by definition."""
    for name, number in numbers.items():
        if isinstance(number, int) and number < 1:
            raise TemplateError(f"{kernel}: {name} must be at least 1, got {number}")


def require_parts(kernel: str, name: str, given: Sequence[IndexLike], parts: Sequence[str]) -> None:
    """Require a tuple, such as a tile, to have these parts, each at least 1."""
    if len(given) != len(parts):
        raise TemplateError(f"{kernel}: {name} is ({', '.join(parts)}), got {tuple(given)}")
    require_positive(kernel, **{f"{name}'s {part}": number for part, number in zip(parts, given, strict=True)})


def require_one_of(kernel: str, name: str, given: str, choices: Sequence[str]) -> None:
    """Require a name to be one of the choices."""
    if given not in choices:
        raise TemplateError(f"{kernel}: {name} is one of {', '.join(choices)}, got {given!r}")


def require_dims(kernel: str, name: str, given: Sequence[IndexLike], needed: Sequence[IndexLike]) -> None:
    """Require the sizes of a layout to equal the kernel's, as far as both are constants."""
    both = list(zip(given, needed, strict=False))
    if len(given) != len(needed) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in both):
        shown = (" x ".join(map(str, dims)) for dims in (needed, given))
        raise TemplateError("{}: {} must be {}, got {}".format(kernel, name, *shown))


def require_threads(kernel: str, block: Sequence[int]) -> None:
    """Require a block to fit the hardware's limit of threads."""
    if prod(block) > THREADS_PER_BLOCK:
        raise TemplateError(
            f"{kernel}: a block of {' x '.join(map(str, block))} has {prod(block)} threads, and at most "
            f"{THREADS_PER_BLOCK} can be launched; take a smaller one"
        )


# -- template functions


def require_language(problem: str, wanted: Language, language: Language, remedy: str) -> None:
    """Require the template's language; `problem` starts the message."""
    if language != wanted:
        raise TemplateError(f"{problem}, and this template becomes {'Triton' if wanted == 'cuda' else 'C'}; {remedy}")


def require_text(word: str, what: str, value: object) -> None:
    """Require a string argument, such as the name of a kernel variable."""
    if not isinstance(value, str):
        raise TemplateError(f"{word}: {what} is given as text, in quotes, got {brief(repr(value))}")


def is_number(value: object) -> bool:
    """Whether a value is an int or an index expression, and so a valid index of a layout."""
    return isinstance(value, Index) or (
        hasattr(value, "__index__") and not isinstance(value, bool) and not shaped(value)
    )


def shaped(value: object) -> bool:
    """Whether a value is an array with axes."""
    return bool(getattr(value, "shape", ()))


def require_ranges(exprs: Iterable[Expr], ranges: Mapping[Symbol, Range]) -> None:
    """Require a range for every index in these expressions; without one the type of the result cannot be proved.

    A name alone needs none: it is printed as is, whatever its type.
    """
    for expr in exprs:
        tables = {table.args[0] for table in tables_of(expr)}
        named = set() if expr.is_Symbol else expr.free_symbols - tables
        ends = (as_expr(end) for s in named if s in ranges for end in (ranges[s].lo, ranges[s].hi))
        unknown = {
            s for s in named.union(*(e.free_symbols for e in ends)) if s not in ranges and not isinstance(s, Size)
        }
        if unknown:
            name = min(map(str, unknown))
            raise TemplateError(
                f"{name} has no known range, so no integer type is proved to hold {brief(expr)}: declare it with "
                f"index({name!r}, stop); only an index on its own, A[{name}, :], gets its range from the layout"
            )
