"""What the builders of kernels and the words of templates refuse at the door, with the values and the remedy.

A layout of other sizes than a kernel's own still renders, and reads the wrong elements; a block that no GPU can launch
is found only on the GPU. So the builders ask first:

>>> require_dims("relayout", "destination", (8, 8), (4, 4))
Traceback (most recent call last):
lego_mlir.errors.TemplateError: relayout: destination must be 4 x 4, got 8 x 8
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Final

from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Size, tables_of
from lego_mlir.templates.render.names import Language

MAX_THREADS: Final = 1024  # of a block, every architecture; CUDA C++ Programming Guide, compute capabilities


def require_positive(kernel: str, **numbers: Any) -> None:
    """Every number is at least 1; a `lego.size` is by definition."""
    for name, number in numbers.items():
        if isinstance(number, int) and number < 1:
            raise TemplateError(f"{kernel}: {name} must be at least 1, got {number}")


def require_parts(kernel: str, name: str, given: Sequence[Any], parts: Sequence[str]) -> None:
    """A tuple such as a tile has these parts, each at least 1."""
    if len(given) != len(parts):
        raise TemplateError(f"{kernel}: {name} is ({', '.join(parts)}), got {tuple(given)}")
    require_positive(kernel, **{f"{name}'s {part}": number for part, number in zip(parts, given, strict=True)})


def require_one_of(kernel: str, name: str, given: str, choices: Sequence[str]) -> None:
    """A name is one of those that the kernel knows."""
    if given not in choices:
        raise TemplateError(f"{kernel}: {name} is one of {', '.join(choices)}, got {given!r}")


def require_dims(kernel: str, name: str, given: Sequence[Any], needed: Sequence[Any]) -> None:
    """A layout has the sizes that the kernel needs, as far as both are numbers."""
    both = list(zip(given, needed, strict=False))
    if len(given) != len(needed) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in both):
        shown = (" x ".join(map(str, dims)) for dims in (needed, given))
        raise TemplateError("{}: {} must be {}, got {}".format(kernel, name, *shown))


def require_threads(kernel: str, block: Sequence[int]) -> None:
    """A block has no more threads than a GPU can launch."""
    if prod(block) > MAX_THREADS:
        raise TemplateError(
            f"{kernel}: a block of {' x '.join(map(str, block))} has {prod(block)} threads, and at most {MAX_THREADS} "
            "can be launched; take a smaller one"
        )


# -- the words of templates


def require_language(said: str, wanted: Language, language: Language, remedy: str) -> None:
    """What is one language's stands in a template that becomes that language; `said` says what it is, and whose."""
    if language != wanted:
        raise TemplateError(f"{said}, and this template becomes {'Triton' if wanted == 'cuda' else 'C'}; {remedy}")


def require_text(word: str, what: str, value: Any) -> None:
    """An argument of a word is text, such as the name of a variable of the kernel."""
    if not isinstance(value, str):
        raise TemplateError(f"{word}: {what} is given as text, in quotes, got {brief(repr(value))}")


def is_number(value: Any) -> bool:
    """Whether a value is an int or an expression of indices and sizes, which a layout can be asked for."""
    return isinstance(value, Index) or (
        hasattr(value, "__index__") and not isinstance(value, bool) and not shaped(value)
    )


def shaped(value: Any) -> bool:
    """Whether a value is an array."""
    return bool(getattr(value, "shape", ()))


def require_ranges(exprs: Iterable[Any], ranges: Mapping[Any, Any]) -> None:
    """Every index in these expressions has a range; without one no type is shown to hold them, and nothing is checked.

    A name alone needs none: whatever type it has, its text is itself.
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
                f"nothing says how far {name} runs, so no integer type is shown to hold {brief(expr)}: declare it with "
                f"index({name!r}, stop); only an index that stands alone, A[{name}, :], has its range from the layout"
            )
