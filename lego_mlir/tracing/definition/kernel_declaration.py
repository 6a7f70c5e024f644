"""The declaration of a kernel: the types of its parameters, its grid and block, and the sizes these name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from keyword import iskeyword
from math import prod
from numbers import Integral
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import IndexLike, Symbol
from lego_mlir.errors import TraceError
from lego_mlir.expr.index import Index, as_expr, is_symbolic
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.related import with_related
from lego_mlir.hardware.limits import PORTABLE_CLUSTER, refusal
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.symbols import expressions, runtime_tables
from lego_mlir.tracing.trace.trace import Source
from lego_mlir.tracing.words.tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.tracer import Tracer


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
    known = [*numbers, *(size.name for size in declared_sizes(kernel))]
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


def declared_extents(kernel: Kernel) -> Iterator[Any]:
    """Every extent of the tensors, the grid and the block."""
    for kind in kernel.signature.values():
        if isinstance(kind, Tensor):
            yield from (*kind.layout.dims(), kind.layout.physical_size())
            yield from () if kind.values is None or kind.dtype.is_float else map(Index, kind.values)
    yield from (*kernel.grid, *kernel.block)


def declared_sizes(kernel: Kernel) -> dict[Symbol, None]:
    """The sizes that the signature, the grid and the block name, in order of first use."""
    found: dict[Symbol, None] = {}
    for n in declared_extents(kernel):
        for symbol in as_expr(n).free_symbols if is_symbolic(n) else ():
            if not isinstance(symbol, Size):
                raise TraceError(
                    f"{kernel.source}: {symbol} in {n!r} is not a size; make one with lego.size('{symbol}')"
                )
        collect_sizes(n, found)
    return found


def sizes_of(kernel: Kernel, tracer: Tracer) -> tuple[Symbol, ...]:
    """The declared sizes, then those that only the body uses."""
    found = declared_sizes(kernel)
    for expr in (*expressions(tracer.body), *(r.condition for r in tracer.requirements)):
        collect_sizes(expr, found)
    require_names(kernel, found, {*(str(s) for s in tracer.ranges), *runtime_tables(tracer.body)})
    return tuple(found)


def require_names(kernel: Kernel, sizes: Collection[Symbol], also: Collection[str]) -> None:
    """Reject sizes whose names are ambiguous at launch."""
    names = [s.name for s in sizes]
    for name in names:
        if names.count(name) > 1 or name in kernel.signature or name in also or iskeyword(name):
            raise TraceError(
                f"{kernel.source}: the size {name} of {kernel.name} needs another name: it is a Python keyword, or "
                "also a parameter, a run-time table, an id of the kernel (tx, bx, k0, ..), or another size with "
                "different facts"
            )


def collect_sizes(value: IndexLike, found: dict[Symbol, None]) -> None:
    """Add the sizes of an expression, in alphabetical order, and those that their relations mention."""
    symbols = sorted(as_expr(value).free_symbols if is_symbolic(value) else (), key=str)
    for size in with_related(symbol for symbol in symbols if isinstance(symbol, Size)):
        found[size] = None
