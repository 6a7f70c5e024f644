"""`@lego.kernel(grid, block)`: a Python function becomes a kernel that can be traced, printed and compared.

A `Kernel` is a value; `calling` has what runs it on arrays. Its function is traced once, on first use of the trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, update_wrapper
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from lego_mlir import bindings
from lego_mlir.aliases import Module, Symbol
from lego_mlir.errors import LegoError, TraceError, did_you_mean, without
from lego_mlir.expr.sizes import SizeIndex, names_in
from lego_mlir.tracing.definition.calling import OnArrays
from lego_mlir.tracing.definition.kernel_declaration import (
    checked_cluster,
    checked_extents,
    checked_specialise,
    signature_of,
)
from lego_mlir.tracing.definition.reference import Referenced
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.launch_bounds import launch_bounds
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.words.declared_tensor import Tensor

if TYPE_CHECKING:
    from lego_mlir.engine.layout_choice import LayoutChoice
    from lego_mlir.layout.naming import NamedMaps
    from lego_mlir.printers.mlir_names import Form
    from lego_mlir.tracing.checks.roundings import Roundings
    from lego_mlir.tracing.definition.kernel_traces import Parameter, Recorded
    from lego_mlir.tracing.definition.reference import Fixed
    from lego_mlir.tracing.schedules.composition import Schedule
    from lego_mlir.tracing.trace.requirements import Requirement
    from lego_mlir.tracing.trace.trace import KernelTrace

_OPTIONS: Final = ("grid", "block", "name", "cluster", "contract", "max_registers", "min_blocks", "fast", "specialise")


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
        extents = (*(n for kind in self.signature.values() for n in _extents_of(kind)), *self.grid, *self.block)
        symbolic = [n for n in extents if not isinstance(n, (int, float))]
        if all(isinstance(n, SizeIndex) for n in symbolic):
            return list(dict.fromkeys(name for n in symbolic for name in names_in(n.formula)))
        from lego_mlir.tracing.definition.declared_sizes import declared_sizes

        return [size.name for size in declared_sizes(self)]

    @cached_property
    def _traced(self) -> KernelTrace:
        try:
            from lego_mlir.tracing.definition.kernel_traces import traced
        except ModuleNotFoundError as error:
            raise without(error, "kernel") from error
        return traced(self)

    def trace_with_names(self, maps: NamedMaps) -> KernelTrace:
        """The kernel traced again, with names for the maps of layouts that its function calls: for proofs only."""
        from lego_mlir.tracing.definition.kernel_traces import trace_of

        return trace_of(self, *self.recorded(maps), maps.maps)

    def recorded(self, maps: NamedMaps) -> Recorded:
        """The recorder of the statements, and the parameters; `maps` are current meanwhile."""
        from lego_mlir.tracing.definition.kernel_traces import recorded

        return recorded(self, maps)

    def completed(self, trace: KernelTrace) -> KernelTrace:
        """The trace, validated as that of a whole kernel."""
        from lego_mlir.tracing.definition.kernel_traces import complete

        return complete(trace)

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
        from lego_mlir.layout.naming import NoNames
        from lego_mlir.tracing.definition.kernel_traces import run

        layouts = run(self, NoNames(), None)[0].open_layouts
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

    def tables(self) -> tuple[str, ...]:
        """The names of the run-time tables, parameters after those of the signature."""
        from lego_mlir.tracing.trace.symbols import runtime_tables

        return tuple(runtime_tables(self._traced.body))

    @cached_property
    def params(self) -> tuple[Parameter, ...]:
        """The parameters, run-time tables last, and whether the kernel reads and writes them."""
        from lego_mlir.tracing.definition.kernel_traces import parameters_of

        return parameters_of(self)

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
        from lego_mlir.tracing.trace.requirements import refuse

        refuse(self._traced.requirements, sizes, error)

    def greatest(self, size: Symbol) -> int | None:
        """The largest value of one of the sizes that this kernel can be launched with, if known."""
        from lego_mlir.tracing.trace.size_limits import greatest

        return greatest(size, self.grid, self.block)

    def module(self, form: Form | Literal["lego", "tiles"] = "affine", *, warpgroups: bool = False) -> Module:
        """The verified module (`ir.Module`), in a new context; "lego" keeps layouts as operations of that dialect.

        "tiles" keeps whole tiles, whose layouts, chosen by the engine, are in their types.

        With `warpgroups`, products of spread values are emitted for the matrix unit of sm_90a where it can compute
        them.
        """
        with bindings.load().ir.Context():
            return self._emitted(form, warpgroups)

    def _emitted(self, form: Form | Literal["lego", "tiles"], warpgroups: bool) -> Module:
        if form == "tiles":
            from lego_mlir.tracing.definition.kernel_traces import tile_words
            from lego_mlir.tracing.definition.tile_module import emitted_tiles

            return emitted_tiles(*tile_words(self))
        trace = self.trace()
        from lego_mlir.tracing.emit.emit_module import emit_module

        if form == "lego":
            from lego_mlir.tracing.emit.emit_lego import LegoTileEmitter

            return emit_module(trace, tiles=LegoTileEmitter)
        return emit_module(trace, form, warpgroups=warpgroups)

    def mlir(
        self, form: Form | Literal["lego", "tiles"] = "affine", *, locations: bool = True, warpgroups: bool = False
    ) -> str:
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

    `cluster=(2, 1)` divides the grid into clusters of that shape along its axes, ints that divide it: see
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


def _extents_of(kind: Tensor | DType) -> tuple[object, ...]:
    """The extents of a parameter, and the ends of its range if these are not numbers."""
    if not isinstance(kind, Tensor):
        return ()
    return (*kind.layout.dims(), kind.layout.physical_size(), *(kind.ends or ()))


def _require_plain(function: Callable[..., Any], source: Source) -> None:
    """Raise TraceError for a function whose body does not run when it is called, so that nothing would be traced."""
    asynchronous = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    if asynchronous or inspect.isgeneratorfunction(function):
        kind, remedy = ("async", "write `def`") if asynchronous else ("a generator", "remove `yield`")
        raise TraceError(
            f"{source}: the kernel {function.__name__} is {kind}, and its body would not run while it is traced; "
            f"{remedy}: a kernel is a plain function that stores into its tensors"
        )
