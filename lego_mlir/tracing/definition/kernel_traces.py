"""The trace of a kernel: its function runs once, on views of its tensors, and a recorder takes its statements."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from lego_mlir.aliases import Symbol
from lego_mlir.errors import BudgetError, LayoutError, LegoError, RefutedLayoutError, SymbolicBranchError, TraceError
from lego_mlir.expr.context import forget_contexts
from lego_mlir.expr.index import as_expr
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.layout import Row, as_layout
from lego_mlir.layout.gallery import tables
from lego_mlir.layout.naming import NamedMaps, NoNames
from lego_mlir.tracing.checks.register_names import warn_of_second_names
from lego_mlir.tracing.definition.declared_sizes import declared_extents, declared_sizes, require_names, sizes_of
from lego_mlir.tracing.trace.data_ranges import Distinct
from lego_mlir.tracing.trace.divergence import refuse_differing
from lego_mlir.tracing.trace.dtypes import DType, i32
from lego_mlir.tracing.trace.launch_bounds import NO_BOUNDS
from lego_mlir.tracing.trace.requirements import Requirement, of_clusters, of_layouts, of_relations
from lego_mlir.tracing.trace.spec_line import Source, line_in
from lego_mlir.tracing.trace.symbols import runtime_tables
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Buffer,
    Constant,
    KernelTrace,
    Load,
    MatrixLoad,
    ScalarParameter,
    Store,
)
from lego_mlir.tracing.trace.tracer import Tracer, record
from lego_mlir.tracing.words.barrier_rings import ring_bytes
from lego_mlir.tracing.words.claimed import refuse_updates
from lego_mlir.tracing.words.declared_range import Values
from lego_mlir.tracing.words.declared_tensor import Tensor
from lego_mlir.tracing.words.distinct import refuse_stores_to_distinct
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.engine.layout_choice import LayoutChoice
    from lego_mlir.engine.tile_graph import TileGraph
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.spread.open_layouts import TileWord

Parameters: TypeAlias = Sequence[Buffer | ScalarParameter]
Recorded: TypeAlias = tuple[Tracer, list[Buffer | ScalarParameter]]
_IN_A_KERNEL: Final = "; in a kernel a branch is `with lego.when(condition):`, and a loop `for i in lego.range(..):`"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the signature. A scalar has no layout; `size` counts a tensor's physical elements.

    `values` is the declared range of its elements, which are `distinct` if the kernel assumes so. A run-time table is a
    `permutation`.
    """

    name: str
    dtype: DType
    layout: Any
    size: Any
    read: bool
    written: bool
    values: Values | None = None
    distinct: Distinct | None = None
    permutation: bool = False


def traced(kernel: Kernel) -> KernelTrace:
    """The trace of a whole kernel. Raises TraceError or LayoutError, with the line of the spec."""
    calls = NoNames()
    warn_of_second_names(kernel.function)
    tracer, parameters = kernel.recorded(calls)
    trace = kernel.completed(trace_of(kernel, tracer, parameters))
    refuse_differing(trace, tracer.common)
    return replace(trace, maps=tuple(calls.layouts))


def recorded(kernel: Kernel, maps: NamedMaps) -> Recorded:
    """The statements of the function, with the layouts that the engine chose, and the parameters."""
    found = run(kernel, maps, kernel._choice)
    layouts = found[0].open_layouts
    if kernel._choice is not None or layouts is None or layouts.graph is None:
        return found
    kernel._choice = _chosen(kernel, layouts.graph)
    return run(kernel, maps, kernel._choice)


def tile_words(kernel: Kernel) -> tuple[KernelTrace, list[TileWord], LayoutChoice]:
    """The kernel with its tile operations whole, and their layouts. Raises LayoutError for one without such tiles."""
    choice = kernel.layout_choice
    if choice is None:
        raise LayoutError(
            f"{kernel.name} has no tiles whose layouts the engine chooses, of which the lego dialect has types; load "
            "them by their shapes alone, or emit the kernel as lego"
        )
    words: list[TileWord] = []
    return trace_of(kernel, *run(kernel, NoNames(), choice, words)), words, choice


def _chosen(kernel: Kernel, graph: TileGraph) -> LayoutChoice:
    from lego_mlir.engine.layout_choice import chosen_layouts

    try:
        return chosen_layouts(graph)
    except LayoutError as error:
        raise located(error, kernel.source) from None


def run(kernel: Kernel, maps: NamedMaps, choice: LayoutChoice | None, words: list[TileWord] | None = None) -> Recorded:
    """The function's statements; with a choice of layouts, those of the tiles in their layouts.

    With `words` the tile operations are appended to that list in place of their statements.
    """
    tracer = Tracer(kernel.name, kernel.grid, kernel.block, kernel.source, kernel.signature, kernel.cluster)
    tracer.contracts, tracer.fast, tracer.unit = kernel.contract, kernel.fast, kernel.unit
    tracer.known_sizes = kernel.known_sizes
    for requirement in kernel.assumed:
        tracer.assume(requirement.condition)
        tracer.requirements.append(requirement)
    if choice is not None:
        from lego_mlir.tracing.spread.open_layouts import OpenLayouts

        tracer.open_layouts = OpenLayouts.filled(tracer, choice)
        tracer.open_layouts.words = words
    parameters: list[Buffer | ScalarParameter] = []
    arguments: list[Any] = []
    for name, kind in kernel.signature.items():
        if isinstance(kind, Tensor):
            size = kind.layout.physical_size()
            buffer = Buffer(name, kind.dtype, kind.layout, "global", size, kernel.source, values=kind.values)
            parameters.append(buffer)
            arguments.append(kind.view(tracer, buffer))
        else:
            value = tracer.value(kind)
            parameters.append(ScalarParameter(name, kind, value))
            tracer.data.names[value.number] = name
            arguments.append(Scalar(value))
    require_names(kernel, declared_sizes(kernel), ())
    forget_contexts()  # a kernel's text must not depend on what was derived before it
    try:
        for n in declared_extents(kernel):
            tracer.require_divisors(as_expr(n), kernel.source)
        maps.ranges = tracer.ranges
        with maps.current():
            given = {**_constants(kernel, tracer), **dict(zip(kernel.signature, arguments, strict=True))}
            record(tracer, kernel.function, [given.get(name) for name in inspect.signature(kernel.function).parameters])
    except LegoError as error:
        raise located(error, kernel.source) from error
    except RecursionError as error:
        ended = BudgetError(
            f"tracing {kernel.name} exceeds Python's recursion limit ({sys.getrecursionlimit()}): an index is nested "
            "too deeply (a table, lego.gallery.tabulated, needs no nesting), or a function recurses without end"
        )
        raise located(ended.with_traceback(error.__traceback__), kernel.source) from None
    return tracer, parameters


def _constants(kernel: Kernel, tracer: Tracer) -> dict[str, Scalar]:
    """The numbers that are fixed, as the function gets them."""
    made: dict[str, Scalar] = {}
    for name, dtype in kernel.number_types.items():
        value = tracer.value(dtype)
        tracer.append(Constant(value, cast("float", kernel.arguments_fixed[name]), kernel.source))
        made[name] = Scalar(value)
    return made


def trace_of(kernel: Kernel, tracer: Tracer, parameters: Parameters, maps: Collection[str] = ()) -> KernelTrace:
    """The trace of a kernel whose statements were recorded; `maps` are names of layouts, no tables."""
    sizes, layouts = sizes_of(kernel, tracer), tracer.open_layouts
    body = tracer.contracted(tracer.body)
    return KernelTrace(
        name=kernel.name,
        parameters=(*parameters, *_tables(kernel, tracer, maps)),
        sizes=sizes,
        grid=kernel.grid,
        block=kernel.block,
        shared=tuple(tracer.shared),
        ids=tracer.ids,
        ranges=tracer.ranges,
        body=body,
        source=kernel.source,
        divisions=tracer.divisions,
        data=tracer.data,
        requirements=(*implied(kernel, sizes), *tracer.requirements),
        distinct=tracer.distinct,
        products=tuple(tracer.products),
        cluster=kernel.cluster if prod(kernel.cluster) > 1 else (),
        phases=tracer.phases,
        numbered=tracer.numbered,
        contractions=tuple(tracer.contractions),
        bounds=layouts.bounds() if layouts is not None and kernel.bounds == NO_BOUNDS else kernel.bounds,
    )


def implied(kernel: Kernel, sizes: tuple[Symbol, ...]) -> tuple[Requirement, ...]:
    """The conditions on sizes that follow from the sizes, the layouts and the launch."""
    return (*of_relations(sizes, kernel.source), *of_layouts(kernel), *of_clusters(kernel))


def _tables(kernel: Kernel, tracer: Tracer, maps: Collection[str]) -> Iterator[Buffer]:
    """The run-time tables of the layouts: parameters after those of the signature."""
    layouts = [kind.layout for kind in kernel.signature.values() if isinstance(kind, Tensor)]
    layouts += [tile.layout for tile in tracer.shared]
    entries: dict[str, str] = {}
    for name, digest in (named for layout in layouts for named in tables.runtime_tables(layout)):
        if entries.setdefault(name, digest) != digest:
            raise TraceError(
                f"{kernel.source}: two run-time tables of {kernel.name} are named '{name}' and differ in their "
                "entries; give each its own name"
            )
    taken = {*kernel.signature, *(tile.name for tile in tracer.shared)}
    for name, table in runtime_tables(tracer.body).items():
        if name in maps:
            continue
        if name in taken:
            raise TraceError(
                f"{kernel.source}: the run-time table '{name}' of {kernel.name} needs another name: "
                "a parameter or a shared tile has this one"
            )
        layout = as_layout(Row(int(table.length)))
        yield Buffer(name, i32, layout, "global", int(table.length), kernel.source)


def parameters_of(kernel: Kernel) -> tuple[Parameter, ...]:
    """The parameters, run-time tables last, and whether the kernel reads and writes them."""
    read, written = set(runtime_tables(kernel.trace().body)), set[str]()
    for statement, access in kernel.trace().accesses():
        match statement:
            case Load() | MatrixLoad():
                read.add(access.buffer.name)
            case AsyncCopy(origin=origin):
                (read if access is origin else written).add(access.buffer.name)
            case Store():
                written.add(access.buffer.name)
            case Atomic(operation=operation):
                read.add(access.buffer.name)
                written |= {access.buffer.name} - ({access.buffer.name} if operation == "load" else set())
    return tuple(
        Parameter(
            p.name,
            p.dtype,
            p.layout,
            p.size,
            p.name in read,
            p.name in written,
            p.values,
            kernel.trace().distinct.get(p.name),
            p.name in kernel.tables(),
        )
        if isinstance(p, Buffer)
        else Parameter(p.name, p.dtype, None, None, True, False)
        for p in kernel.trace().parameters
    )


def complete(trace: KernelTrace) -> KernelTrace:
    """Validate that a trace stores to a tensor and that its shared tiles fit a block. Raises TraceError otherwise."""
    _require_room(trace)
    if not any(
        isinstance(statement, (Store, Atomic)) and access.buffer.space == "global"
        for statement, access in trace.accesses()
    ):
        raise TraceError(f"{trace.source}: kernel {trace.name} writes no tensor; a store is written y[i, j] = value")
    refuse_updates(trace)
    refuse_stores_to_distinct(trace)
    return trace


def _require_room(trace: KernelTrace) -> None:
    """Raise TraceError for shared tiles that no block has room for; scripts place or replace those of `lego.mma`."""
    used = ring_bytes(trace)
    what = "tiles and barriers" if used else "tiles"
    for tile in () if trace.tile_rows() else trace.shared:
        size = tile.size * tile.dtype.bytes
        if size > LARGEST_SHARED_BYTES:
            raise TraceError(
                f"{tile.source}: lego.shared of {tile.size} elements of {tile.dtype} takes {size} bytes, and GPUs have "
                f"at most {LARGEST_SHARED_BYTES} for a block; use a smaller tile"
            )
        used += size
        if used > LARGEST_SHARED_BYTES:
            raise TraceError(
                f"{tile.source}: with {tile.name}, {tile.layout!r} of {tile.dtype}, the shared {what} of "
                f"{trace.name} take {used} bytes; GPUs have at most {LARGEST_SHARED_BYTES} for a block; use smaller "
                "tiles"
            )


def located(error: LegoError, source: Source) -> LegoError:
    """The error with the line of the spec in front, unless it names one already."""
    where = line_in(error) or source
    remedy = _IN_A_KERNEL if isinstance(error, SymbolicBranchError) else ""
    if str(error).startswith((f"{source.file}:", f"{where.file}:")):
        return error
    kind = LayoutError if isinstance(error, RefutedLayoutError) else type(error)  # the layout is that of the cause
    return kind(f"{where}: {error}{remedy}")
