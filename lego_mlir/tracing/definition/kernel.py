"""`@lego.kernel(grid, block)`: a Python function becomes a kernel that can be traced, printed and compared.

A `Kernel` is a value; `calling` has what runs it on arrays. Its function is traced once, on first use of the trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, update_wrapper
from math import prod
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from lego_mlir import bindings
from lego_mlir.aliases import Module, Symbol
from lego_mlir.errors import (
    BudgetError,
    LayoutError,
    LegoError,
    RefutedLayoutError,
    SymbolicBranchError,
    TraceError,
    did_you_mean,
)
from lego_mlir.expr.context import forget_contexts
from lego_mlir.expr.index import as_expr
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.layout import Row, as_layout
from lego_mlir.layout.gallery import tables
from lego_mlir.layout.naming import NamedMaps, NoNames
from lego_mlir.printers.mlir_names import Form
from lego_mlir.tracing.checks.register_names import warn_of_second_names
from lego_mlir.tracing.definition.calling import OnArrays
from lego_mlir.tracing.definition.kernel_declaration import (
    checked_cluster,
    checked_extents,
    checked_specialise,
    declared_extents,
    declared_sizes,
    require_names,
    signature_of,
    sizes_of,
)
from lego_mlir.tracing.definition.reference import Referenced
from lego_mlir.tracing.trace.divergence import refuse_differing
from lego_mlir.tracing.trace.dtypes import DType, i32
from lego_mlir.tracing.trace.launch_bounds import launch_bounds
from lego_mlir.tracing.trace.requirements import Requirement, of_clusters, of_layouts, of_relations, refuse
from lego_mlir.tracing.trace.size_limits import greatest
from lego_mlir.tracing.trace.symbols import runtime_tables
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Buffer,
    Constant,
    Distinct,
    KernelTrace,
    Load,
    MatrixLoad,
    ScalarParameter,
    Source,
    Store,
)
from lego_mlir.tracing.trace.tracer import OUR_PACKAGES, Tracer, record
from lego_mlir.tracing.words.barrier_rings import ring_bytes
from lego_mlir.tracing.words.claimed import Values, refuse_updates
from lego_mlir.tracing.words.distinct import refuse_stores_to_distinct
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.engine.layout_choice import LayoutChoice
    from lego_mlir.engine.tile_graph import TileGraph
    from lego_mlir.tracing.checks.roundings import Roundings
    from lego_mlir.tracing.definition.reference import Fixed
    from lego_mlir.tracing.schedules.composition import Schedule

_OPTIONS: Final = ("grid", "block", "name", "cluster", "contract", "max_registers", "min_blocks", "fast", "specialise")
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


class Kernel(Referenced, OnArrays):
    """A kernel: a function over tensors with layouts, launched on `grid` blocks of `block` threads, each (x, y, z)."""

    specialise: bool | tuple[str, ...] = False
    """Whether calls with sizes of 1, or divisible by 16, have kernels of their own: `definition.specialised`; the names
    are those of numbers and sizes whose every value has one."""
    number_types: Mapping[str, DType] = MappingProxyType({})
    """The types of the numbers among `arguments_fixed`."""
    known_sizes: Mapping[Symbol, int] = MappingProxyType({})
    """The sizes of a specialised kernel that are numbers."""
    unit: str | None = None
    """The matrix unit that a schedule chose for products of tiles without a layout."""
    assumed: tuple[Requirement, ...] = ()
    """What the sizes of a specialised kernel satisfy."""

    def __init__(
        self,
        function: Callable[..., Any],
        grid: Any,
        block: Any,
        name: str | None = None,
        names: Mapping[str, Any] | None = None,
        cluster: Any = None,
        contract: Any = True,
        max_registers: Any = None,
        min_blocks: Any = None,
        fast: Any = False,
        specialise: Any = False,
    ) -> None:
        super().__init__()
        if not inspect.isfunction(function):
            raise TraceError(f"@lego.kernel decorates a Python function, got {function!r}")
        code = function.__code__
        self.name = function.__name__ if name is None else name
        self.function = function
        self.source = Source(code.co_filename, code.co_firstlineno)
        _require_plain(function, self.source)
        require_entry_name(self.name, self.source)
        self.grid = checked_extents("grid", grid, self.source)
        self.block = checked_extents("block", block, self.source)
        self.cluster = () if cluster is None else checked_cluster(cluster, self.grid, self.source)
        self.bounds = launch_bounds(max_registers, min_blocks, self.block, self.source)
        if not isinstance(contract, bool):
            raise TraceError(f"{self.source}: contract={contract!r} is True or False: whether a * b + c is one fma")
        if not isinstance(fast, bool):
            raise TraceError(
                f"{self.source}: fast={fast!r} is True or False: whether division, roots, exp, log, sin and cos of f32 "
                "are approximate; a call takes fast=True too"
            )
        self.contract, self.fast = contract, fast
        self.signature = signature_of(function, self.source, names)
        self.specialise = checked_specialise(specialise, self)
        update_wrapper(self, function, updated=())
        self.schedules: tuple[str, ...] = ()
        self._choice: LayoutChoice | None = None
        self._texts: dict[tuple[str, bool, bool], str] = {}

    def __repr__(self) -> str:
        return f"<kernel {self.name}, grid {self.grid}, block {self.block}, {self.source}>"

    def _size_names(self) -> list[str]:
        return [size.name for size in declared_sizes(self)]

    @cached_property
    def _traced(self) -> KernelTrace:
        calls = NoNames()
        warn_of_second_names(self.function)
        tracer, parameters = self._recorded(calls)
        trace = self._completed(self._trace(tracer, parameters))
        refuse_differing(trace, tracer.common)
        return replace(trace, maps=tuple(calls.layouts))

    def trace_with_names(self, maps: NamedMaps) -> KernelTrace:
        """The kernel traced again, with names for the maps of layouts that its function calls: for proofs only."""
        return self._trace(*self._recorded(maps), maps.maps)

    def _completed(self, trace: KernelTrace) -> KernelTrace:
        """The trace, validated as that of a whole kernel."""
        return _complete(trace)

    @property
    def layout_choice(self) -> LayoutChoice | None:
        """The layouts that the engine chose for tiles without one; None where the kernel has no such tiles.

        Raises LayoutError, with the uses that conflict, where no layouts fit together.
        """
        self.trace()
        return self._choice

    def without(self, *names: str) -> Kernel:
        """The kernel without tensors that may be None, which its function gets as None."""
        return self.fixed(**dict.fromkeys(names))

    def fixed(self, **values: Fixed) -> Kernel:
        """The kernel for these values of numbers, and None for tensors: see `definition.fixed_arguments`."""
        from lego_mlir.tracing.definition.fixed_arguments import fixed

        return fixed(self, values)

    def placed(self, choice: LayoutChoice) -> Kernel:
        """The kernel with its tiles without a layout in those of another choice for the same graph."""
        found = self._untraced()
        found._choice = choice
        return found

    def for_unit(self, unit: str, schedule: str) -> Kernel | None:
        """The kernel with operands of its products staged for a matrix unit, where that is cheapest, by a schedule.

        None where it multiplies no tiles without a layout.
        """
        from lego_mlir.engine.tile_graph import MultiplyTiles

        layouts = self._run(NoNames(), None)[0].open_layouts
        graph = None if layouts is None else layouts.graph
        if graph is None or not any(isinstance(n.operation, MultiplyTiles) for n in graph.nodes):
            return None
        found = self._untraced()
        found.unit, found.schedules = unit, (*self.schedules, schedule)
        return found

    def _untraced(self) -> Kernel:
        """The same kernel, traced anew and with its layouts open."""
        found = object.__new__(type(self))
        found.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("_traced", "params")})
        found._texts, found._choice = {}, None
        return found

    def _recorded(self, maps: NamedMaps) -> tuple[Tracer, list[Buffer | ScalarParameter]]:
        recorded = self._run(maps, self._choice)
        layouts = recorded[0].open_layouts
        if self._choice is not None or layouts is None or layouts.graph is None:
            return recorded
        self._choice = self._chosen(layouts.graph)
        return self._run(maps, self._choice)

    def _chosen(self, graph: TileGraph) -> LayoutChoice:
        from lego_mlir.engine.layout_choice import chosen_layouts

        try:
            return chosen_layouts(graph)
        except LayoutError as error:
            raise located(error, self.source) from None

    def _run(self, maps: NamedMaps, choice: LayoutChoice | None) -> tuple[Tracer, list[Buffer | ScalarParameter]]:
        """The function's statements; with a choice of layouts, those of the tiles in their layouts."""
        tracer = Tracer(self.name, self.grid, self.block, self.source, self.signature, self.cluster)
        tracer.contracts, tracer.fast, tracer.unit = self.contract, self.fast, self.unit
        tracer.known_sizes = self.known_sizes
        for requirement in self.assumed:
            tracer.assume(requirement.condition)
            tracer.requirements.append(requirement)
        if choice is not None:
            from lego_mlir.tracing.spread.open_layouts import OpenLayouts

            tracer.open_layouts = OpenLayouts.filled(tracer, choice)
        parameters: list[Buffer | ScalarParameter] = []
        arguments: list[Any] = []
        for name, kind in self.signature.items():
            if isinstance(kind, Tensor):
                size = kind.layout.physical_size()
                buffer = Buffer(name, kind.dtype, kind.layout, "global", size, self.source, values=kind.values)
                parameters.append(buffer)
                arguments.append(kind.view(tracer, buffer))
            else:
                value = tracer.value(kind)
                parameters.append(ScalarParameter(name, kind, value))
                tracer.data.names[value.number] = name
                arguments.append(Scalar(value))
        require_names(self, declared_sizes(self), ())
        forget_contexts()  # a kernel's text must not depend on what was derived before it
        try:
            for n in declared_extents(self):
                tracer.require_divisors(as_expr(n), self.source)
            maps.ranges = tracer.ranges
            with maps.current():
                given = {**self._constants(tracer), **dict(zip(self.signature, arguments, strict=True))}
                record(tracer, self.function, [given.get(name) for name in inspect.signature(self.function).parameters])
        except LegoError as error:
            raise located(error, self.source) from error
        except RecursionError as error:
            ended = BudgetError(
                f"tracing {self.name} exceeds Python's recursion limit ({sys.getrecursionlimit()}): an index is nested "
                "too deeply (a table, lego.gallery.tabulated, needs no nesting), or a function recurses without end"
            )
            raise located(ended.with_traceback(error.__traceback__), self.source) from None
        return tracer, parameters

    def _constants(self, tracer: Tracer) -> dict[str, Scalar]:
        """The numbers that are fixed, as the function gets them."""
        made: dict[str, Scalar] = {}
        for name, dtype in self.number_types.items():
            value = tracer.value(dtype)
            tracer.append(Constant(value, cast("float", self.arguments_fixed[name]), self.source))
            made[name] = Scalar(value)
        return made

    def _trace(
        self, tracer: Tracer, parameters: Sequence[Buffer | ScalarParameter], maps: Collection[str] = ()
    ) -> KernelTrace:
        sizes = sizes_of(self, tracer)
        body = tracer.contracted(tracer.body)
        return KernelTrace(
            name=self.name,
            parameters=(*parameters, *self._tables(tracer, maps)),
            sizes=sizes,
            grid=self.grid,
            block=self.block,
            shared=tuple(tracer.shared),
            ids=tracer.ids,
            ranges=tracer.ranges,
            body=body,
            source=self.source,
            divisions=tracer.divisions,
            data=tracer.data,
            requirements=(*self._implied(sizes), *tracer.requirements),
            distinct=tracer.distinct,
            products=tuple(tracer.products),
            cluster=self.cluster if prod(self.cluster) > 1 else (),
            phases=tracer.phases,
            numbered=tracer.numbered,
            contractions=tuple(tracer.contractions),
            bounds=self.bounds,
        )

    def _implied(self, sizes: tuple[Symbol, ...]) -> tuple[Requirement, ...]:
        """The conditions on sizes that follow from the sizes, the layouts and the launch."""
        return (*of_relations(sizes, self.source), *of_layouts(self), *of_clusters(self))

    def _tables(self, tracer: Tracer, maps: Collection[str]) -> Iterator[Buffer]:
        """The run-time tables of the layouts: parameters after those of the signature."""
        layouts = [kind.layout for kind in self.signature.values() if isinstance(kind, Tensor)]
        layouts += [tile.layout for tile in tracer.shared]
        entries: dict[str, str] = {}
        for name, digest in (named for layout in layouts for named in tables.runtime_tables(layout)):
            if entries.setdefault(name, digest) != digest:
                raise TraceError(
                    f"{self.source}: two run-time tables of {self.name} are named '{name}' and differ in their "
                    "entries; give each its own name"
                )
        taken = {*self.signature, *(tile.name for tile in tracer.shared)}
        for name, table in runtime_tables(tracer.body).items():
            if name in maps:
                continue
            if name in taken:
                raise TraceError(
                    f"{self.source}: the run-time table '{name}' of {self.name} needs another name: "
                    "a parameter or a shared tile has this one"
                )
            layout = as_layout(Row(int(table.length)))
            yield Buffer(name, i32, layout, "global", int(table.length), self.source)

    def tables(self) -> tuple[str, ...]:
        """The names of the run-time tables, parameters after those of the signature."""
        return tuple(runtime_tables(self._traced.body))

    def roundings(self, sizes: Mapping[str, int]) -> dict[str, Roundings]:
        """For each tensor, the roundings of what the kernel stores in it, for these sizes."""
        from lego_mlir.tracing.checks.roundings import roundings

        return roundings(self._traced, sizes)

    def schedule(self, *schedules: str | Schedule, name: str | None = None) -> Kernel:
        """The kernel after schedules, from left to right: `k.schedule("warpgroups, pipeline(stages=4), roles")`.

        Its `name` is that of this kernel unless given: one module holds kernels of different names. See
        docs/how-to/schedules.md. Raises ScheduleError, with the line of the statement that a schedule cannot take.
        """
        from lego_mlir.tracing.schedules.composition import apply, named

        found = apply(self, *schedules)
        return found if name is None else named(found, name)

    def trace(self) -> KernelTrace:
        """The traced program. Raises TraceError or LayoutError, with the line of the spec, for an invalid kernel."""
        return self._traced

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """The symbolic sizes (`Size` symbols), trailing arguments in this order."""
        return self._traced.sizes

    def refuse_sizes(self, sizes: Mapping[str, int], error: type[LegoError] = TraceError) -> None:
        """Raise `error` for values of the sizes that do not satisfy the kernel's requirements: relations, claims."""
        refuse(self._traced.requirements, sizes, error)

    def greatest(self, size: Symbol) -> int | None:
        """The largest value of one of the sizes that this kernel can be launched with, if known."""
        return greatest(size, self.grid, self.block)

    @cached_property
    def params(self) -> tuple[Parameter, ...]:
        """The parameters, run-time tables last, and whether the kernel reads and writes them."""
        read, written = set(runtime_tables(self._traced.body)), set[str]()
        for statement, access in self._traced.accesses():
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
                self._traced.distinct.get(p.name),
                p.name in self.tables(),
            )
            if isinstance(p, Buffer)
            else Parameter(p.name, p.dtype, None, None, True, False)
            for p in self._traced.parameters
        )

    def module(self, form: Form | Literal["lego"] = "affine", *, warpgroups: bool = False) -> Module:
        """The verified module (`ir.Module`), in a new context; "lego" keeps layouts as operations of that dialect.

        With `warpgroups`, products of spread values are emitted for the matrix unit of sm_90a where it can compute
        them.
        """
        with bindings.load().ir.Context():
            return self._emitted(form, warpgroups)

    def _emitted(self, form: Form | Literal["lego"], warpgroups: bool) -> Module:
        from lego_mlir.tracing.emit.emit_module import emit_module

        if form == "lego":
            from lego_mlir.tracing.emit.emit_lego import LegoTileEmitter

            return emit_module(self._traced, tiles=LegoTileEmitter)
        return emit_module(self._traced, form, warpgroups=warpgroups)

    def mlir(self, form: Form | Literal["lego"] = "affine", *, locations: bool = True, warpgroups: bool = False) -> str:
        """The verified module as text; `locations` keeps the spec's file and line of every operation."""
        text = self._texts.get((form, locations, warpgroups))
        if text is None:
            with bindings.context():
                text = self._emitted(form, warpgroups).operation.get_asm(enable_debug_info=locations)
            if form == "lego":
                from lego_mlir.transforms.lego_ops.op_forms import to_custom

                text = to_custom(text)
            self._texts[form, locations, warpgroups] = text
        return text


def kernel(
    grid: Any = None,
    block: Any = None,
    name: str | None = None,
    cluster: Any = None,
    contract: Any = True,
    max_registers: Any = None,
    min_blocks: Any = None,
    fast: Any = False,
    specialise: Any = False,
    **other: Any,
) -> Callable[[Callable[..., Any]], Kernel]:
    """The decorator. `grid` and `block` are an int or up to three, x first; sizes may be symbolic.

    `cluster=(2, 1)` divides the grid into clusters of so many blocks along its axes, ints that divide it: see
    `tracing.words.clustered_blocks`. `contract=False` rounds products that are added by themselves: see
    `tracing.trace.contraction`. `max_registers` and `min_blocks` limit the registers of a thread: see
    `tracing.trace.launch_bounds`. `fast=True` makes division and functions approximate: `tracing.words.functions`.
    `specialise=True` makes kernels of their own for calls with sizes that are 1 or divisible by 16; a tuple of names
    of numbers and sizes, for their values too: see `tracing.definition.specialised`.

    Parameters are annotated with `lego.Tensor(dtype, layout)`, or with an element type for a number. `name` is the
    entry of the compiled code, the function's name by default. Raises TraceError for other options, and if `grid` or
    `block` is missing.
    """
    for option in other:
        raise TraceError(
            f"@lego.kernel takes {', '.join(_OPTIONS[:-1])} and {_OPTIONS[-1]}, not {option}"
            f"{did_you_mean(option, _OPTIONS)}: write @lego.kernel(grid=.., block=..)"
        )
    if grid is None or block is None:
        raise TraceError("the decorator takes the sizes of the launch: write @lego.kernel(grid=.., block=..)")

    def decorate(function: Callable[..., Any]) -> Kernel:
        names = sys._getframe(1).f_locals
        return Kernel(
            function, grid, block, name, names, cluster, contract, max_registers, min_blocks, fast, specialise
        )

    return decorate


def require_entry_name(name: object, source: Source) -> None:
    """Raise TraceError for a name that PTX does not allow."""
    if not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise TraceError(
            f"{source}: a kernel cannot be named {name}: names in PTX consist of ASCII letters, digits and underscores"
        )


def _complete(trace: KernelTrace) -> KernelTrace:
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


def _require_plain(function: Callable[..., Any], source: Source) -> None:
    """Raise TraceError for a function whose body does not run when it is called, so that nothing would be traced."""
    asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if asynchronous or inspect.isgeneratorfunction(function):
        kind, remedy = ("async", "write `def`") if asynchronous else ("a generator", "remove `yield`")
        raise TraceError(
            f"{source}: the kernel {function.__name__} is {kind}, and its body would not run while it is traced; "
            f"{remedy}: a kernel is a plain function that stores into its tensors"
        )


def located(error: LegoError, source: Source) -> LegoError:
    """The error with the line of the spec in front, unless it names one already."""
    where = source
    remedy = _IN_A_KERNEL if isinstance(error, SymbolicBranchError) else ""
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith(OUR_PACKAGES):
            where = Source(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    if str(error).startswith((f"{source.file}:", f"{where.file}:")):
        return error
    kind = LayoutError if isinstance(error, RefutedLayoutError) else type(error)  # the layout is that of the cause
    return kind(f"{where}: {error}{remedy}")
