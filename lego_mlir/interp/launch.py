"""Launch a kernel of an MLIR module on NumPy arrays and report faults and counts.

The grid is split into batches of blocks, as large as the memory limit allows; each batch is one `Machine` in lockstep.
Global buffers and their shadows live as long as the launch, so races between blocks of different batches are found.

>>> import numpy as np
>>> text = '''
... gpu.module @m { gpu.func @double(%x: memref<64xf32>) kernel {
...   %i = gpu.thread_id x
...   %v = memref.load %x[%i] : memref<64xf32>
...   %w = arith.addf %v, %v : f32
...   memref.store %w, %x[%i] : memref<64xf32>
...   gpu.return } }'''
>>> x = np.arange(64, dtype=np.float32)
>>> report = launch(text, grid=1, block=64, args=[x])
>>> x[:4].tolist(), report.clean, report.totals.sectors
([0.0, 2.0, 4.0, 6.0], True, 16)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Module, Type
from lego_mlir.errors import InterpreterError
from lego_mlir.expr.index import is_masked
from lego_mlir.hardware.limits import WARP, refusal, refused_cluster
from lego_mlir.interp import dialects, memory, shadow, values
from lego_mlir.interp.cluster_blocks import ClusterBlocks, ClusterScheduler, clusters_of
from lego_mlir.interp.counters import Counters
from lego_mlir.interp.dialects.cf import compile_blocks
from lego_mlir.interp.faults import BlockStopped, Faults
from lego_mlir.interp.geometry import Dim3, dim3
from lego_mlir.interp.happens_before import WarpClocks
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import DeviceBuffer, MemRef, Space
from lego_mlir.interp.printed import Printed
from lego_mlir.interp.program import CompiledFunction, Compiler
from lego_mlir.interp.report import BufferTraffic, Report
from lego_mlir.transforms.lego_ops.entry import plain
from lego_mlir.transforms.modules import ModuleError, require_depth

if TYPE_CHECKING:
    from lego_mlir.interp.counters import Observe
    from lego_mlir.interp.element_history import RunWatch
    from lego_mlir.interp.values import Array, SlotValue

LANES_AT_ONCE = 1 << 14
"""Lanes of a batch beyond which NumPy's arrays exceed the cache and throughput falls."""
MEMORY_LIMIT = 1 << 30
SECTOR = 32

Argument = Any
Progress = Callable[[int, int], None]

assert dialects  # the import registers the operations


@dataclass(slots=True)
class Options:
    """Options of a launch other than kernel, extents and arguments."""

    checks: bool = True
    counts: bool = True
    blocks: int | Sequence[int] | None = None
    memory_limit: int = MEMORY_LIMIT
    lanes_at_once: int = LANES_AT_ONCE
    progress: Progress | None = None
    watch: RunWatch | None = None


@dataclass(slots=True)
class LaunchState:
    """State shared by the batches of a launch, or by all launches of a host function."""

    compiler: Compiler
    options: Options
    faults: Faults = field(default_factory=Faults)
    counters: Counters | None = None
    blocks_run: int = 0
    launches: int = 0
    printed: Printed = field(default_factory=Printed)

    def run_grid(
        self,
        function: CompiledFunction,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[SlotValue],
        dynamic_shared: int,
        enter: Callable[[Machine], None] | None = None,
        cluster: Dim3 | None = None,
    ) -> None:
        """Run all blocks, or the requested sample, batch by batch. Refuses extents that no GPU can launch."""
        if function.known_cluster is not None and cluster not in (None, function.known_cluster):
            raise InterpreterError(
                f"@{function.name} is compiled for clusters of {function.known_cluster}, not {cluster}"
            )
        cluster = cluster or function.known_cluster or (1, 1, 1)
        if refused := refusal("grid", grid) or refusal("block", block) or refused_cluster(cluster, grid):
            raise InterpreterError(f"@{function.name}: {refused}")
        self.launches += 1
        chosen = choose_blocks(self.options.blocks, grid)
        size = self._batch_size(function, block, dynamic_shared)
        together = self.compiler.clustered and prod(cluster) > 1
        batches = [chosen[start : start + size] for start in range(0, len(chosen), size)]
        if together:
            batches = clusters_of(grid, cluster, chosen)
        done = 0

        def start(machine: Machine) -> None:
            machine.cluster, machine.launch = cluster, self.launches
            if enter is not None:
                enter(machine)
            self._enter(machine, function, arguments)

        for batch in batches:
            with suppress(BlockStopped):
                if together:
                    self._run_cluster(function, grid, block, batch, dynamic_shared, start)
                else:
                    machine = self._machine(grid, block, batch, dynamic_shared)
                    start(machine)
                    function.body.run(machine)
            self.blocks_run += len(batch)
            done += len(batch)
            if self.options.progress is not None:
                self.options.progress(min(done, len(chosen)), len(chosen))

    def _enter(self, machine: Machine, function: CompiledFunction, arguments: Sequence[SlotValue]) -> None:
        """Bind the arguments, and allocate shared and private memory."""
        for slot, value in zip(function.body.arguments, arguments, strict=False):
            machine.values[slot] = value
        for name, (slot, type_) in zip(function.tiles, function.workgroup, strict=True):
            machine.values[slot] = _attribution(machine, Space.SHARED, type_, name)
        for i, (slot, type_) in enumerate(function.private):
            machine.values[slot] = _attribution(machine, Space.LOCAL, type_, f"private{i}")

    def _run_cluster(
        self,
        function: CompiledFunction,
        grid: Dim3,
        block: Dim3,
        ids: Array,
        dynamic_shared: int,
        start: Callable[[Machine], None],
    ) -> None:
        """Run the blocks of one cluster concurrently."""
        blocks = ClusterBlocks(ids, grid)
        blocks.machines = [self._machine(grid, block, ids[i : i + 1], dynamic_shared) for i in range(len(ids))]
        first = blocks.machines[0]
        first.clocks = WarpClocks(first.warps * len(ids))
        for rank, machine in enumerate(blocks.machines):
            machine.cluster_blocks, machine.rank = blocks, rank
            machine.clocks, machine.flights = first.clocks, first.flights
            start(machine)
        ClusterScheduler(blocks, function.body.run).run()

    def _machine(self, grid: Dim3, block: Dim3, batch: Array, dynamic_shared: int) -> Machine:
        return Machine(
            grid=grid, block=block, batch=batch, values=[None] * self.compiler.slots, faults=self.faults,
            counters=self.counters, checks=self.options.checks, watch=self.options.watch,
            accesses=self.compiler.accesses, dynamic_shared_bytes=dynamic_shared, run_grid=self.run_grid,
            printed=self.printed, warps_synchronised=self.compiler.synchronises_warps,
            clocks=WarpClocks(-(-prod(block) // WARP)) if self.compiler.concurrent else None,
        )  # fmt: skip

    def _batch_size(self, function: CompiledFunction, block: Dim3, dynamic_shared: int) -> int:
        if self.compiler.concurrent:
            return 1
        threads = block[0] * block[1] * block[2]
        shared = dynamic_shared + self.compiler.shared_bytes
        for _, type_ in function.workgroup:
            shared += int(np.prod(type_.shape)) * values.element_dtype(type_).itemsize
        # A shadow takes two 8-byte words for each element of at least 2 bytes.
        per_block = shared * 9 + threads * (self.compiler.lane_bytes + 64)
        fitting = self.options.memory_limit // max(per_block, 1)
        return max(1, min(fitting, -(-self.options.lanes_at_once // threads)))


def _attribution(m: Machine, space: Space, type_: Type, name: str) -> MemRef:
    return memory.allocate(m, space, values.element_dtype(type_), list(type_.shape), name)


def choose_blocks(blocks: int | Sequence[int] | None, grid: Dim3) -> Array:
    """The linear ids of the blocks to run: all, an evenly spaced sample of the given number, or the given ids."""
    total = grid[0] * grid[1] * grid[2]
    if blocks is None:
        return np.arange(total, dtype=np.int64)
    if isinstance(blocks, int | np.integer):
        if blocks < 1:
            raise InterpreterError(f"a sample needs at least 1 block, got {blocks}")
        return np.unique(np.linspace(0, total - 1, min(int(blocks), total)).round().astype(np.int64))
    chosen = np.unique(np.asarray(list(blocks), np.int64))
    if chosen.size == 0 or chosen[0] < 0 or chosen[-1] >= total:
        raise InterpreterError(f"blocks must be ids within 0..{total - 1}, got {list(blocks)}")
    return chosen


def parse(module: Module, source: str = "-") -> Module:
    """An MLIR module, parsed if given as text; `source` is the file name in diagnostics."""
    if not isinstance(module, str):
        return module
    ir = bindings.load().ir
    try:
        text = plain(module, source)
        require_depth(text, source)
        return ir.Module.parse(text, bindings.reading_context())
    except ModuleError as error:
        raise InterpreterError(f"this is not a valid MLIR module:\n{error}") from None
    except ir.MLIRError as error:
        diagnostics = str(error).replace('"-":', f"{source}:")
        raise InterpreterError(f"this is not a valid MLIR module:\n{diagnostics}") from None


def compile_module(module: Module, source: str = "-") -> Compiler:
    """Parse if necessary and compile; pass the result to `launch` to run one module several times."""
    return Compiler(parse(module, source), source, compile_blocks)


def launch(
    module: Module,
    kernel_name: str | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    args: Sequence[Argument] = (),
    *,
    dynamic_shared: int | None = None,
    names: Sequence[str] = (),
    checks: bool = True,
    counts: bool = True,
    blocks: int | Sequence[int] | None = None,
    memory_limit: int = MEMORY_LIMIT,
    progress: Progress | None = None,
    observe: Observe | None = None,
    watch: RunWatch | None = None,
) -> Report:
    """Run a kernel of `module` (text or a parsed module) on arrays, in place, and report faults and counts.

    `grid` and `block` are optional if the kernel has `known_grid_size` and `known_block_size`. `blocks` selects a
    sample. `observe` is called with every counted request: its site, the byte addresses of its lanes as
    (blocks, warps, 32), the active lanes, and the bytes of each lane. `watch` records who touches one
    element. Raises InterpreterError for a module, extent or argument that cannot run; errors during execution are
    faults of the report.
    """
    compiler = module if isinstance(module, Compiler) else compile_module(module)
    function = compiler.function(kernel_name or _only_kernel(compiler))
    extents = _extents(function, grid, block)
    buffers, arguments = bind(function, args, names)
    if dynamic_shared is None:
        dynamic_shared = compiler.dynamic_bytes
    options = Options(checks, counts, blocks, memory_limit, LANES_AT_ONCE, progress, watch)
    run = LaunchState(compiler, options, counters=Counters(observe) if counts else None)
    with np.errstate(all="ignore"):
        if function.is_kernel:
            run.run_grid(function, *extents, arguments, dynamic_shared)
        else:
            host = run._machine((1, 1, 1), (1, 1, 1), np.zeros(1, np.int64), 0)
            host.checks, host.counters = False, None
            for slot, value in zip(function.body.arguments, arguments, strict=True):
                host.values[slot] = value
            function.body.run(host)
    return _report(function, extents, run, buffers)


def _only_kernel(compiler: Compiler) -> str:
    kernels = compiler.kernels() or compiler.functions()
    if len(kernels) != 1:
        raise InterpreterError(f"the module has {len(kernels)} kernels ({', '.join(kernels)}); name the one to run")
    return kernels[0]


def _extents(
    function: CompiledFunction, grid: int | Sequence[int] | None, block: int | Sequence[int] | None
) -> tuple[Dim3, Dim3]:
    for what, known, given in (("grid", function.known_grid, grid), ("block", function.known_block, block)):
        if known is not None and given is not None and dim3(given, what) != known:
            raise InterpreterError(f"@{function.name} is compiled for the {what} {known}, not {dim3(given, what)}")
    grid = function.known_grid if grid is None else grid
    block = function.known_block if block is None else block
    if not function.is_kernel:
        return (1, 1, 1), (1, 1, 1)
    if grid is None or block is None:
        missing = "grid" if grid is None else "block"
        raise InterpreterError(f"@{function.name} does not fix its {missing} size; pass {missing}=(x, y, z)")
    return dim3(grid, "grid"), dim3(block, "block")


def bind(
    function: CompiledFunction, args: Sequence[Argument], names: Sequence[str] = ()
) -> tuple[dict[int, DeviceBuffer], list[SlotValue]]:
    """Arguments as values: an array becomes a global buffer (once, even if passed twice), a number a uniform value."""
    types = function.argument_types
    if len(args) != len(types):
        raise InterpreterError(f"@{function.name} takes {len(types)} arguments, got {len(args)}")
    buffers: dict[int, DeviceBuffer] = {}
    bound: list[Any] = []
    for i, (value, type_) in enumerate(zip(args, types, strict=True)):
        name = names[i] if i < len(names) else f"argument {i}"
        if not values.is_memref(type_):
            bound.append(_number(value, values.element_dtype(type_)))
            continue
        if not isinstance(value, np.ndarray) or is_masked(value):
            raise InterpreterError(
                f"{name} of @{function.name} is a {type_}, so pass a NumPy array, not {type(value).__name__}"
            )
        bound.append(_window(function, i, value, type_, name, buffers))
    return buffers, bound


def _number(value: Any, dtype: np.dtype[Any]) -> Array:
    """A number for all lanes; MLIR's integers have no sign, so an unsigned number is passed as its bits."""
    if dtype.kind == "i" and value > np.iinfo(dtype).max:
        return values.uniform(int(value), values.UNSIGNED[dtype.itemsize]).view(dtype)
    return values.uniform(value, dtype)


def _has_elements(array: Array, dtype: np.dtype[Any]) -> bool:
    """Whether an array holds elements of this type; MLIR's integers have no sign, and a truth value takes a byte."""
    return array.dtype == dtype or (
        array.dtype.kind in "iub" and dtype.kind in "ib" and array.dtype.itemsize == dtype.itemsize
    )


def _window(
    function: CompiledFunction, number: int, array: Array, type_: Type, name: str, buffers: dict[int, DeviceBuffer]
) -> MemRef:
    dtype = values.element_dtype(type_)
    if not _has_elements(array, dtype) or not array.flags.c_contiguous:
        raise InterpreterError(
            f"{name} of @{function.name} is a {type_}: pass a C-contiguous array of {dtype}, got {array.dtype} "
            f"with strides {array.strides}"
        )
    written = number in function.arguments_written
    if written and not array.flags.writeable:
        raise InterpreterError(f"{name} of @{function.name} is written, but the array is read-only; pass a copy")
    shape = array.shape if array.ndim == type_.rank else (array.size,)
    marker = type_.get_dynamic_size()
    if len(shape) != type_.rank or any(want not in (marker, n) for want, n in zip(type_.shape, shape, strict=True)):
        raise InterpreterError(f"{name} of @{function.name} is a {type_}; {array.shape} does not fit")
    start = array.__array_interface__["data"][0]
    for buffer in buffers.values():
        other = buffer.storage.__array_interface__["data"][0]
        if other == start and buffer.bytes == array.nbytes:
            buffer.reads_tracked = buffer.reads_tracked or written
            return MemRef(buffer, dtype, 0, shape, memory.row_major(shape))
        if other < start + array.nbytes and start < other + buffer.bytes:
            raise InterpreterError(
                f"{name} overlaps {buffer.name} in part; pass the same array twice, or disjoint arrays"
            )
    storage = array.reshape(-1).view(np.uint8).reshape(1, -1)
    buffer = DeviceBuffer(Space.GLOBAL, storage, name, dtype.itemsize, argument=number, tracked=written)
    buffers[number] = buffer
    return MemRef(buffer, dtype, 0, shape, memory.row_major(shape))


def _report(
    function: CompiledFunction, extents: tuple[Dim3, Dim3], run: LaunchState, buffers: dict[int, DeviceBuffer]
) -> Report:
    sites = list(run.counters.sites.values()) if run.counters is not None else []
    traffic, shadows = [], {}
    for number, buffer in buffers.items():
        moved = sum(site.sectors for site in sites if site.buffer == buffer.name) * SECTOR
        if run.options.checks:
            written = int(buffer.shadow.written().sum())
            seen = 0 if buffer.shadow.seen is None else int(buffer.shadow.seen.sum())
            traffic.append(BufferTraffic(buffer.name, moved, (written + seen) * buffer.granule))
            if function.is_kernel:
                places = [access.place for access in run.compiler.accesses]
                shadows[number] = shadow.History(buffer.shadow, *extents, places)
    return Report(
        kernel=function.name, grid=extents[0], block=extents[1], blocks_run=run.blocks_run,
        faults=run.faults.all(), sites=sites, buffers=traffic, shadows=shadows, printed=str(run.printed),
    )  # fmt: skip
