"""The declaration of a kernel: the types of its parameters, its grid and block. Nothing here needs SymPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import TraceError
from lego_mlir.expr.index import Index, is_symbolic
from lego_mlir.hardware.limits import PORTABLE_CLUSTER, refusal
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


def checked_extents(what: str, given: Any, source: Source) -> tuple[Any, ...]:
    """The sizes of a grid or a block. Raises TraceError for what no launch has."""
    extents = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not 1 <= len(extents) <= 3:
        raise TraceError(f"{source}: {what}={given!r} must have one to three sizes, in x, y, z order")
    checked: list[Any] = []
    for axis, n in zip("xyz", extents, strict=False):
        if is_symbolic(n):
            checked.append(n if isinstance(n, Index) else Index(n))
        elif isinstance(n, bool) or not isinstance(n, Integral):
            raise TraceError(f"{source}: {what} {axis} must be an int or a symbolic size, got {n!r}")
        elif abs(int(n)) >= 1 << 64:
            raise TraceError(f"{source}: {what} {axis} has {int(n).bit_length()} bits, more than any launch; lower it")
        else:
            checked.append(int(n))
    if refused := refusal(what, [n if isinstance(n, int) else 1 for n in checked]):
        raise TraceError(f"{source}: {refused}")
    return tuple(checked)


def checked_cluster(given: Any, grid: Sequence[Any], source: Source) -> tuple[int, ...]:
    """The blocks of a cluster along the axes of the grid. Raises TraceError where they do not divide the grid."""
    extents = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(extents) > len(grid) or not all(type(n) is int and n > 0 for n in extents):
        raise TraceError(
            f"{source}: cluster={given!r} has a positive int for each axis of the grid {grid}, or for its first ones"
        )
    if prod(extents) > PORTABLE_CLUSTER:
        raise TraceError(
            f"{source}: cluster={given!r} has {prod(extents)} blocks; every GPU with clusters runs at most "
            f"{PORTABLE_CLUSTER} together"
        )
    whole = (*extents, *(1 for _ in grid[len(extents) :]))
    for axis, n, c in zip("xyz", grid, whole, strict=False):
        if isinstance(n, int) and n % c:
            raise TraceError(
                f"{source}: cluster={given!r}: {c} does not divide grid {axis} = {n}; launch whole clusters, such as "
                f"{-(-n // c) * c} blocks, and let the kernel skip what is past the end"
            )
    return whole


def checked_specialise(given: object, kernel: Kernel) -> bool | tuple[str, ...]:
    """The option `specialise`. Raises TraceError for names of neither numbers nor sizes."""
    if isinstance(given, bool):
        return given
    numbers = [name for name, kind in kernel.signature.items() if not isinstance(kind, Tensor)]
    known = [*numbers, *kernel._size_names()]
    if isinstance(given, (tuple, list)) and all(name in known for name in given):
        return tuple(given)
    raise TraceError(
        f"{kernel.source}: specialise={given!r} is True or False: whether sizes that are 1, or divisible by 16, make a "
        f"kernel of their own when it is called; or names, of {', '.join(known) or 'none'}, whose values do too"
    )


def signature_of(
    function: Callable[..., Any], source: Source, names: Mapping[str, Any] | None
) -> dict[str, Tensor | DType]:
    """The parameters' declarations. Annotations that are strings may use `names`, local to the defining function."""
    try:
        signature = inspect.signature(function, eval_str=True, locals=names)
    except NameError as error:
        raise TraceError(f"{source}: an annotation of {function.__name__} cannot be evaluated ({error})") from error
    declared: dict[str, Tensor | DType] = {}
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or parameter.default is not parameter.empty:
            raise TraceError(
                f"{source}: parameter '{name}' of {function.__name__} must be a plain one, without a default, * or /: "
                "a launch passes every argument, in order"
            )
        if not (isinstance(kind, Tensor) or (isinstance(kind, DType) and kind.family != "index")):
            given = "none" if kind is parameter.empty else repr(kind)
            raise TraceError(
                f"{source}: parameter '{name}' of {function.__name__} needs the annotation lego.Tensor(dtype, layout), "
                f"or an element type such as lego.f32 for a number, got {given}"
            )
        declared[name] = kind
    return declared
