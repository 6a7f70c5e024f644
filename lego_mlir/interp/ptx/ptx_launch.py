"""Run a kernel of PTX text on NumPy arrays, in place, and report its faults.

>>> import numpy as np
>>> ptx = '''.version 8.0
... .target sm_80
... .address_size 64
... .visible .entry double_all(.param .u64 p)
... .maxntid 32, 1, 1
... { .reg .b32 %r<4>; .reg .b64 %rd<4>;
...   ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
...   ld.global.b32 %r2, [%rd3]; add.s32 %r3, %r2, %r2; st.global.b32 [%rd3], %r3; ret; }'''
>>> x = np.arange(32, dtype=np.int32)
>>> report = emulate(ptx, args=[x], grid=(1, 1, 1))
>>> report.clean, x[:4].tolist()
(True, [0, 2, 4, 6])
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.errors import InterpreterError
from lego_mlir.expr.index import is_masked
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES, THREADS_PER_SM, refusal, refused_cluster
from lego_mlir.interp.faults import Faults
from lego_mlir.interp.ptx import address_spaces as spaces
from lego_mlir.interp.ptx import instructions as _registered  # noqa: F401  (fills the decoder's table)
from lego_mlir.interp.ptx.address_spaces import GlobalMemory
from lego_mlir.interp.ptx.checks import DEFAULT, Checks
from lego_mlir.interp.ptx.decoder import Decoder
from lego_mlir.interp.ptx.device_heap import HEAP_BYTES, DeviceHeap
from lego_mlir.interp.ptx.device_order import DeviceOrder, orders_blocks
from lego_mlir.interp.ptx.divided_launches import (
    LONG_S,
    BufferAccesses,
    DividedLaunch,
    ProcessConflict,
    WorkerResult,
    cores,
    is_divisible,
)
from lego_mlir.interp.ptx.gang_scheduler import GangScheduler, PtxCode, first_gangs
from lego_mlir.interp.ptx.global_shadow import GlobalShadow
from lego_mlir.interp.ptx.instructions.block_barriers import release_after_exits
from lego_mlir.interp.ptx.instructions.cluster_barriers import release_cluster_after_exits
from lego_mlir.interp.ptx.instructions.mbarriers import expire_waits
from lego_mlir.interp.ptx.line_mix import InstructionMix
from lego_mlir.interp.ptx.linking import function_addresses, linked
from lego_mlir.interp.ptx.liveness import live_before, results
from lego_mlir.interp.ptx.ptx_machine import Dim3, LaunchShape, PtxMachine, SharedArray, Step, block_numbers
from lego_mlir.interp.ptx.ptx_program import PtxEntry, PtxInstruction, PtxModule
from lego_mlir.interp.ptx.ptx_reader import plain_variable, read_ptx
from lego_mlir.interp.ptx.ptx_types import NUMPY, TYPE_NAMES, bits_of_type_name
from lego_mlir.interp.ptx.reconvergence import join_points, successors
from lego_mlir.interp.ptx.recorded_launches import RecordedLaunch
from lego_mlir.interp.report import Kind, Report, SourceLocation
from lego_mlir.interp.shared_shadow import TENSOR_UNITS, UNITS

PtxArgument = Any
"""An array, which is passed as a pointer, a number, or an object with `ptx_bytes`, such as a tensor map."""
Extents = int | Sequence[int]
"""Sizes along x, y, z; those left out are 1."""
BUDGET: Final = 20_000_000
SHADOW_BYTES: Final = 512 << 20
RESIDENT_THREADS: Final = 16384
MOST_PROCESSES: Final = 16
DEVICE_THREADS: Final = REFERENCE_SMS * THREADS_PER_SM
"""Threads that the reference holds at once: blocks that wait for each other need that many."""


@dataclass(frozen=True, slots=True)
class EmulatorOptions:
    """The seed of all random orders, the steps after which a run is stopped as endless, and the checks.

    `blocks`: run this many blocks only, spread over the grid. `progress` is told the blocks done, and how many there
    are, after each wave of resident blocks.
    """

    seed: int = 0
    budget: int = BUDGET
    checks: Checks = DEFAULT
    blocks: int | None = None
    progress: Callable[[int, int], None] | None = None
    record: Callable[[RecordedLaunch], None] | None = None
    cores: int | None = None


def emulate(
    ptx: str | PtxModule,
    entry: str | None = None,
    *,
    args: Sequence[PtxArgument] = (),
    grid: Extents = (1, 1, 1),
    block: Extents | None = None,
    cluster: Extents | None = None,
    dynamic_shared: int = 0,
    names: Sequence[str] = (),
    seed: int = 0,
    budget: int = BUDGET,
    source: str = "<ptx>",
    options: EmulatorOptions | None = None,
) -> Report:
    """Run an entry of PTX on arrays. `block` and `cluster` are optional where the entry fixes them.

    `dynamic_shared` is in bytes. `seed` draws the order in which warps run and asynchronous copies land; `options` has
    it and more, in place of `seed` and `budget`. Raises InterpreterError for text that cannot be read, an instruction
    that is not modelled, or arguments that do not fit; what goes wrong while running is a fault of the report. Its
    places are lines of the source where the PTX has `.loc` directives, else lines of the PTX.
    """
    module = read_ptx(ptx, source) if isinstance(ptx, str) else ptx
    memory = GlobalMemory()
    chosen = options if options is not None else EmulatorOptions(seed, budget)
    run = prepared(module, entry, memory, args, (grid, block, cluster), dynamic_shared, names, chosen)
    if chosen.record is not None and not memory.textures:
        chosen.record(run.recorded(names))
    memory.allocate()
    if chosen.checks.global_races:
        memory.shadow = GlobalShadow(len(memory.arena), _granule(run.kernel, "global"), _clusters(run.shape))
        memory.shadow.replicated = chosen.checks.replicated
    if any(map(orders_blocks, run.kernel.instructions)):
        memory.order = DeviceOrder()
    run.may_divide = (
        chosen.cores != 1 and memory.shadow is not None and is_divisible(run.kernel.instructions, chosen.checks)
    )
    with np.errstate(all="ignore"):
        for _ in run.turns():
            pass
        memory.write_back()
    return run.report()


def prepared(
    module: PtxModule, entry: str | None, memory: GlobalMemory, args: Sequence[PtxArgument],
    extents: tuple[Extents, Extents | None, Extents | None], dynamic_shared: int,
    names: Sequence[str], options: EmulatorOptions,
) -> EmulatedLaunch:  # fmt: skip
    """A launch whose arrays are placed in memory, which is not allocated yet; `extents` are as for `emulate`."""
    kernel = linked(module, module.entry(entry))
    addresses = _place_globals(module, kernel, memory)
    variables = len(memory.buffers)
    pointers = _bind_arrays(kernel, args, names, memory)
    if any(i.opcode == "call" and "malloc" in map(str, i.operands) for i in kernel.instructions):
        memory.heap = DeviceHeap(memory, memory.reserve(HEAP_BYTES))
    parameters = _parameters(kernel, pointers, addresses)
    shape = _shape(module, kernel, addresses, extents, dynamic_shared)
    return EmulatedLaunch(module, kernel, memory, parameters, Faults(), shape, addresses, options, variables, pointers)


@dataclass(slots=True)
class EmulatedLaunch:
    """One launch: `machine` holds the blocks that are resident now, `blocks` counts those that began.

    The first buffers of the memory are its `variables`; the others belong to the bound `arguments`.
    """

    module: PtxModule
    kernel: PtxEntry
    memory: GlobalMemory
    parameters: bytes
    faults: Faults
    shape: LaunchShape
    addresses: Mapping[str, tuple[str, int]]
    options: EmulatorOptions
    variables: int = 0
    arguments: Sequence[PtxArgument] = ()
    machine: PtxMachine | None = None
    blocks: int = 0
    executed: int = 0
    wanted: int = 0
    may_divide: bool = False

    def recorded(self, names: Sequence[str]) -> RecordedLaunch:
        """The launch as data, before memory is allocated."""
        shape = self.shape
        return RecordedLaunch(
            self.module.text, self.module.source, self.kernel.name, shape.grid, shape.block, shape.cluster,
            shape.dynamic_shared, self.memory.recorded_buffers(self.variables), tuple(self.arguments), tuple(names),
            tuple(self.memory.unwritten), self.options.checks,
        )  # fmt: skip

    def report(self) -> Report:
        """What happened so far."""
        shape, machine = self.shape, self.machine
        sites = [] if machine is None or machine.counts is None else machine.counts.sites()
        report = Report(self.kernel.name, shape.grid, shape.block, self.blocks, self.faults.all(), sites, [])
        report.printed = "".join(self.faults.printed)
        if machine is not None and machine.mix is not None:
            report.mix = list(machine.mix.lines.values())
        return self.module.places.translate(report)

    @property
    def triggered(self) -> bool:
        """Whether every block has ended or let the next kernel of the stream begin."""
        machine, shape = self.machine, self.shape
        if machine is None or self.blocks < prod(shape.grid):
            return False
        ended = [bool(block.all()) for block in machine.exited.reshape(len(machine.blocks), -1)]
        return all(ended[slot] or slot in machine.triggered for slot in range(len(machine.blocks)))

    def turns(self) -> Iterator[None]:
        """Run the grid in waves of whole clusters, a turn at a time."""
        order, waits = self._order(), self.memory.order is not None
        at_once = _resident_blocks(self.shape, DEVICE_THREADS if waits else RESIDENT_THREADS)
        random = np.random.default_rng(self.options.seed)
        machine = PtxMachine(
            self.shape, order[:at_once], self.memory, self.parameters, self.faults, self.module.source, random,
            self.options.checks,
        )  # fmt: skip
        self.machine = machine
        if self.options.checks.counts:
            machine.mix = InstructionMix()
        waves = LaunchWaves(self, order, at_once, self._decoded(machine))
        yield from waves.turns()
        if not waves.is_cut:
            self._report_leaks()

    def _order(self) -> Array:
        """The blocks to run, clusters whole; a sample is spread evenly."""
        order, peers = _blocks_in_order(self.shape), self.shape.cluster_blocks
        wanted = self.options.blocks
        if wanted is None or wanted >= len(order):
            return order
        clusters = order.reshape(-1, peers, 3)
        chosen = np.unique(np.linspace(0, len(clusters) - 1, max(wanted // peers, 1)).round().astype(np.int64))
        return clusters[chosen].reshape(-1, 3)

    def _decoded(self, machine: PtxMachine) -> PtxCode:
        """The entry's instructions for all waves."""
        instructions, following = self.kernel.instructions, successors(self.kernel)
        decoder = Decoder(machine, self.kernel, self.addresses, join_points(following), self.module.source)
        decoder.live = live = live_before(instructions, following)
        steps = decoder.steps()
        when_hot = None
        if machine.allows_regions:
            when_hot = partial(_install_regions, steps, decoder, live, self._remaining)
        return PtxCode(
            steps,
            [i.line for i in instructions] + [instructions[-1].line if instructions else self.kernel.line],
            live,
            [i.registers() for i in instructions] + [frozenset()],
            [i.opcode == "wgmma" for i in instructions] + [True],
            [_polls(i) for i in instructions] + [False],
            [frozenset(results(i)) if i.opcode == "mov" else frozenset() for i in instructions] + [frozenset()],
            when_hot,
        )

    def _remaining(self) -> float:
        """How many blocks have not begun, for each that has."""
        return (self.wanted - self.blocks) / max(self.blocks, 1)

    def _report_leaks(self) -> None:
        """Blocks of `malloc` that the kernel did not free."""
        if self.memory.heap is None:
            return
        for line, (blocks, nbytes) in self.memory.heap.leaks().items():
            message = f"{nbytes} bytes in {blocks} block{'s' if blocks > 1 else ''} of malloc were not freed"
            place = SourceLocation(self.module.source, line)
            self.faults.add(Kind.LEAK, message, place, (0, 0, 0), (0, 0, 0), count=blocks)


@dataclass(slots=True)
class LaunchWaves:
    """The blocks of a launch, `at_once` at a time; long ones are divided among processes (`divided_launches`)."""

    launch: EmulatedLaunch
    order: Array
    at_once: int
    code: PtxCode
    start: int = 0
    lane_steps: int = 0
    is_cut: bool = False
    division: DividedLaunch | None = None
    done: Callable[[int], None] | None = None

    def turns(self) -> Iterator[None]:
        """Run the waves; `is_cut` afterwards where one did not end."""
        launch, began, total = self.launch, time.monotonic(), len(self.order)
        machine, options = launch.machine, launch.options
        assert machine is not None
        own, launch.wanted = self.start, total
        while self.start < len(self.order) and not self.is_cut:
            if machine.has_begun:
                machine.begin(self.order[self.start : self.start + self.at_once])
            machine.has_begun = True
            launch.blocks += len(machine.blocks)
            self.start += self.at_once
            yield from self._wave(machine)
            others = 0 if self.division is None else self.division.blocks_done()
            if self.done is not None:
                self.done(self.start)
            elif options.progress is not None:
                options.progress(launch.blocks + others, total)
            if launch.may_divide and self.division is None:
                seconds = (time.monotonic() - began) * (total - self.start) / self.start
                own = self.start
                self._divide(seconds)
        if self.division is not None:
            self._join(self.order[own:], total)

    def _wave(self, machine: PtxMachine) -> Iterator[None]:
        launch = self.launch
        machine.runnable = first_gangs(machine, len(launch.kernel.widths))
        scheduler = GangScheduler(machine, self.code, launch.options.budget, self.lane_steps)
        rescues = (release_cluster_after_exits, expire_waits, release_after_exits)
        scheduler.rescues += [partial(rescue, machine) for rescue in rescues]
        yield from scheduler.turns()
        launch.executed, self.lane_steps = launch.executed + scheduler.executed, scheduler.lane_steps
        self.is_cut = bool(machine.parked or machine.stopped or scheduler.executed > launch.options.budget)

    def _divide(self, seconds: float) -> None:
        """Give shares of what is left to other processes, if it is worth that."""
        left, parts = self.order[self.start :], min(self.launch.options.cores or cores(), MOST_PROCESSES)
        waves = -(-len(left) // self.at_once)
        if self.is_cut or seconds < LONG_S or min(parts, waves) < 2:
            return
        peers = self.launch.shape.cluster_blocks
        shares = [s.reshape(-1, 3) for s in np.array_split(left.reshape(-1, peers, 3), min(parts, waves))]
        self.order = np.concatenate([self.order[: self.start], shares[0]])
        self.division = DividedLaunch(self.launch.memory, shares[1:], self._share)

    def _share(self, blocks: Array, number: int) -> WorkerResult:
        """In a worker: run its blocks."""
        launch, machine, division = self.launch, self.launch.machine, self.division
        assert machine is not None
        machine.random = np.random.default_rng([launch.options.seed, number])
        launch.faults, machine.faults, launch.blocks, launch.executed = (found := Faults()), found, 0, 0
        launch.may_divide = False
        waves = LaunchWaves(launch, blocks, self.at_once, self.code, lane_steps=self.lane_steps)
        if division is not None:
            waves.done = partial(division.note, number - 1)
        for _ in waves.turns():
            pass
        memory, owned = launch.memory, self._table(blocks)
        accesses = [BufferAccesses.of(memory, buffer, owned) for buffer in memory.buffers]
        return WorkerResult(accesses, launch.faults.all(), launch.blocks, launch.executed, not waves.is_cut)

    def _join(self, own: Array, total: int) -> None:
        """Wait for the workers, and take what they did."""
        launch, division = self.launch, self.division
        assert division is not None
        owned = self._table(own)
        for worker, result in division.results():
            if result is None:
                raise InterpreterError(f"{launch.kernel.name}: a process of the emulator ended; try cores=1")
            division.merge(result, owned, self._report)
            for fault in result.faults:
                launch.faults.merge(fault)
            owned |= self._table(worker.blocks)
            launch.blocks, launch.executed = launch.blocks + result.blocks, launch.executed + result.executed
            self.is_cut |= not result.is_whole
            if launch.options.progress is not None:
                launch.options.progress(launch.blocks, total)

    def _table(self, blocks: Array) -> Array:
        """A truth value for each block of the grid: whether it is one of these."""
        gx, gy, gz = self.launch.shape.grid
        found = np.zeros(gx * gy * gz, np.bool_)
        found[blocks @ np.array([1, gx, gx * gy])] = True
        return found

    def _report(self, element: str, conflict: ProcessConflict) -> None:
        gx, gy, _ = self.launch.shape.grid
        block = (conflict.block % gx, conflict.block // gx % gy, conflict.block // (gx * gy))
        did = "write" if conflict.written else "read"
        message = f"this write of {element} races with the {did} at line {conflict.other} of another block"
        source = self.launch.module.source
        place, other = SourceLocation(source, conflict.line), SourceLocation(source, conflict.other)
        self.launch.faults.add(Kind.RACE, message, place, block, (0, 0, 0), other=other, count=conflict.count)


def _install_regions(steps: list[Step], decoder: Decoder, live: Sequence[int], remaining: Callable[[], float]) -> None:
    from lego_mlir.interp.ptx.regions.hot_regions import install  # LLVM is loaded late

    install(steps, decoder, live, remaining)


def _polls(instruction: PtxInstruction) -> bool:
    """Whether it may read what another block or warp changes: a spin loop has one."""
    strong = {"volatile", "acquire", "relaxed", "mmio"} & set(instruction.modifiers)
    return instruction.opcode == "atom" or (instruction.opcode == "ld" and bool(strong))


def _blocks_in_order(shape: LaunchShape) -> Array:
    """(blocks, 3): the blocks of each cluster one after the other, by rank."""
    found = []
    gx, gy, gz = shape.grid
    cx, cy, cz = shape.cluster
    for z0 in range(0, gz, cz):
        for y0 in range(0, gy, cy):
            for x0 in range(0, gx, cx):
                found += [(x0 + x, y0 + y, z0 + z) for z in range(cz) for y in range(cy) for x in range(cx)]
    return np.array(found, np.int64)


def _clusters(shape: LaunchShape) -> IntArray | None:
    """(clusters, ranks): the numbers of the blocks of each cluster of more than one."""
    if shape.cluster_blocks == 1:
        return None
    return block_numbers(_blocks_in_order(shape), shape.grid).reshape(-1, shape.cluster_blocks)


def _resident_blocks(shape: LaunchShape, threads: int = RESIDENT_THREADS) -> int:
    """As many blocks as the shadow's memory allows, whole clusters."""
    agents = 4 * shape.warps * shape.cluster_blocks
    shadow = shape.shared_bytes * (4 * agents / shape.granule + 10) + 1
    blocks = min(int(SHADOW_BYTES // shadow), threads // shape.threads)
    return max(blocks // shape.cluster_blocks, 1) * shape.cluster_blocks


def _place_globals(module: PtxModule, kernel: PtxEntry, memory: GlobalMemory) -> dict[str, tuple[str, int]]:
    """Space and address of each variable, and of each parameter."""
    found: dict[str, tuple[str, int]] = {}
    for variable in (*module.variables, *kernel.variables):
        if variable.space in ("global", "const"):
            data = variable.data or bytes(variable.size)
            found[variable.name] = (variable.space, memory.add(variable.name, data).address)
    functions = function_addresses(module)
    found |= {name: ("func", address) for name, address in functions.items()}
    for variable in module.variables:
        for symbol in variable.symbols:
            if symbol.name not in found:
                raise InterpreterError(f"{variable.name} holds the address of {symbol.name}, which is not declared")
            memory.patch(variable.name, symbol.at, found[symbol.name][1] + symbol.offset)
    named = {str(o) for i in kernel.instructions for o in i.operands}
    if any(name.startswith("%envreg") for name in named):
        memory.grid_workspace = memory.add("the workspace of the grid's barrier", bytes(4096)).address
    offset = 0
    for parameter in kernel.parameters:
        offset = spaces.rounded(offset, max(parameter.align, 1))
        found[parameter.name] = ("param", offset)
        offset += parameter.size
    return found


def _bind_arrays(
    kernel: PtxEntry, args: Sequence[PtxArgument], names: Sequence[str], memory: GlobalMemory
) -> list[PtxArgument]:
    """The arguments with arrays replaced by addresses."""
    if len(args) != len(kernel.parameters):
        raise InterpreterError(f"{kernel.name} takes {len(kernel.parameters)} arguments, got {len(args)}")
    bound: list[PtxArgument] = []
    for i, (value, parameter) in enumerate(zip(args, kernel.parameters, strict=True)):
        name = names[i] if i < len(names) else parameter.name
        if is_masked(value):
            raise InterpreterError(
                f"{name}: a masked array has no elements where its mask is set; pass array.filled(..)"
            )
        if isinstance(value, np.ndarray) and value.ndim:
            if not value.flags.c_contiguous:
                raise InterpreterError(f"{name}: pass a C-contiguous array, got strides {value.strides}")
            flat = value.reshape(-1).view(np.uint8)
            bound.append(memory.add(name, flat.tobytes(), value, value.itemsize).address)
        elif hasattr(value, "bind"):
            bound.append(value.bind(memory, name))
        else:
            bound.append(value)
    return bound


def _parameters(kernel: PtxEntry, values: Sequence[PtxArgument], addresses: Mapping[str, tuple[str, int]]) -> bytes:
    """The bytes of the parameter space."""
    end = max((addresses[p.name][1] + p.size for p in kernel.parameters), default=0)
    out = bytearray(end)
    for value, parameter in zip(values, kernel.parameters, strict=True):
        at = addresses[parameter.name][1]
        if isinstance(value, bytes):
            data = value
        else:
            dtype = NUMPY[parameter.dtype]
            number = np.asarray(value)
            if dtype.kind == "f" and number.dtype.kind in "iub":
                number = number.astype(dtype)
            if dtype.kind in "iu" and number.dtype.kind in "iub":
                wrapped = int(number) & ((1 << 8 * dtype.itemsize) - 1)
                data = wrapped.to_bytes(dtype.itemsize, "little")
            else:
                data = _number_bytes(number, parameter.size)
        if len(data) != parameter.size:
            raise InterpreterError(
                f"{kernel.name}: {parameter.name} has {parameter.size} bytes, and the argument {len(data)}"
            )
        out[at : at + parameter.size] = data
    return bytes(out)


def _number_bytes(number: Array, size: int) -> bytes:
    """A float for a parameter declared as bits of the same size."""
    if number.dtype.itemsize != size and number.dtype == np.float64:
        number = number.astype({2: np.float16, 4: np.float32}.get(size, np.float64))
    return number.tobytes()


def _dim3(given: Extents, what: str) -> Dim3:
    values = [int(n) for n in ((given,) if isinstance(given, int) else given)]
    if not 1 <= len(values) <= 3:
        raise InterpreterError(f"{what}={tuple(values)}: one to three extents")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _shape(
    module: PtxModule,
    kernel: PtxEntry,
    addresses: dict[str, tuple[str, int]],
    extents: tuple[Extents, Extents | None, Extents | None],
    dynamic: int,
) -> LaunchShape:
    """Check the extents, and place shared and local variables."""
    grid = _dim3(extents[0], "grid")
    known = kernel.required_threads or kernel.most_threads
    if extents[1] is None and known is None:
        raise InterpreterError(f"{kernel.name} does not fix its block size; pass block=(x, y, z)")
    block = _dim3(extents[1] if extents[1] is not None else known or (), "block")
    if kernel.required_threads is not None and block != kernel.required_threads:
        raise InterpreterError(f"{kernel.name} requires blocks of {kernel.required_threads}, not {block}")
    if kernel.most_threads is not None and np.prod(block) > np.prod(kernel.most_threads):
        raise InterpreterError(f"{kernel.name} is compiled for blocks of at most {kernel.most_threads}, not {block}")
    cluster = _dim3(extents[2] if extents[2] is not None else kernel.cluster or (1, 1, 1), "cluster")
    if kernel.cluster is not None and cluster != kernel.cluster:
        raise InterpreterError(f"{kernel.name} requires clusters of {kernel.cluster}, not {cluster}")
    if refused := refusal("grid", grid) or refusal("block", block) or refused_cluster(cluster, grid):
        raise InterpreterError(f"{kernel.name}: {refused}")
    every = (*module.variables, *kernel.variables)
    static = [(v.name, v.size, v.align) for v in every if v.space == "shared" and v.size]
    offsets, end = spaces.layout_of(static, spaces.SHARED_BASE)
    external = [v for v in every if v.space == "shared" and not v.size]
    start = spaces.rounded(end, max((v.align for v in external), default=16))
    offsets |= {v.name: start for v in external}
    end = start + dynamic if external or dynamic else end
    if end - spaces.SHARED_BASE > LARGEST_SHARED_BYTES:
        raise InterpreterError(
            f"{kernel.name} takes {end - spaces.SHARED_BASE} bytes of shared memory, of {LARGEST_SHARED_BYTES}"
        )
    local, depth = spaces.layout_of([(v.name, v.size, v.align) for v in every if v.space == "local"], 0)
    addresses.update({name: ("shared", at) for name, at in offsets.items()})
    addresses.update({name: ("local", at) for name, at in local.items()})
    sizes = {v.name: v.size for v in every if v.space == "shared"}
    arrays = tuple(SharedArray(plain_variable(name), at, sizes[name]) for name, at in offsets.items())
    units = TENSOR_UNITS if any(i.opcode == "tcgen05" for i in kernel.instructions) else UNITS
    return LaunchShape(grid, block, cluster, end, dynamic, depth, _granule(kernel), arrays, units)


def _granule(kernel: PtxEntry, space: str = "shared") -> int:
    """The smallest element that the kernel stores to shared or global memory, in bytes, at most 4."""
    other = "global" if space == "shared" else "shared"
    least = 4
    for instruction in kernel.instructions:
        spaces_named = {modifier.split("::")[0] for modifier in instruction.modifiers}
        if instruction.opcode in ("st", "atom", "red") and other not in spaces_named:
            for modifier in instruction.modifiers:
                if modifier in TYPE_NAMES:
                    least = min(least, max(bits_of_type_name(modifier) // 8, 1))
    return least
