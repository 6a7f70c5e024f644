"""The sizes that the declaration of a kernel names, and those that only its body uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import TraceError
from lego_mlir.expr.index import Index, as_expr, is_symbolic
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.related import with_related
from lego_mlir.tracing.trace.symbols import expressions, runtime_tables
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.aliases import IndexLike, Symbol
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.tracer import Tracer


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
    symbols = as_expr(value).free_symbols if is_symbolic(value) else ()
    sizes = [symbol for symbol in symbols if isinstance(symbol, Size)]
    if sizes:
        found.update(dict.fromkeys(with_related(sorted(sizes, key=lambda size: size.name))))
