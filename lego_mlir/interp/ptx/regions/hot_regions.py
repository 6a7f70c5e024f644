"""Regions of an entry: compiled once many lanes have run through them, and run in the interpreter's place.

Compiling takes some milliseconds an instruction, so a region runs in the interpreter until that is worth less than the
interpreter's time for the blocks that are left; of the blocks that run, nobody knows how long they will. A form that a
region turns out not to hold divides it. Machine code is kept on disk, by the text of its IR and the CPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as remember
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.interp.ptx.ptx_program import PtxEntry, PtxInstruction
from lego_mlir.interp.ptx.ptx_types import BITS
from lego_mlir.interp.ptx.regions.llvm_ir import binding as llvm
from lego_mlir.interp.ptx.regions.llvm_ir import ir
from lego_mlir.interp.ptx.regions.region_code import FIELDS, FIRST_RESULT, IrValue, NotInRegionError, RegionCode
from lego_mlir.interp.ptx.regions.region_operations import HELD, emit_instruction
from lego_mlir.store import Cache, default_folder, key

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.decoder import Decoder
    from lego_mlir.interp.ptx.gangs import Gang
    from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step

HOT: Final = 1.0
"""How many times the cost of compiling a region the interpreter is expected to take for it still."""
AGAIN: Final = 0.25
"""What a region is expected to take once more in the blocks that run, of what it has taken."""
COMPILED_S, COMPILED_ACCESS_S, COMPILED_REGION_S = 0.002, 0.009, 0.02
INTERPRETED_S, INTERPRETED_ACCESS_S = 25e-9, 120e-9
"""Seconds to compile an instruction, an access, a region; to interpret an instruction or access of one lane."""
SHORTEST: Final = 2
LONGEST: Final = 400
"""Instructions of a region: LLVM's time grows faster than its length."""
TICK: Final = 1 << 10
Function = Callable[..., int]


def straight_runs(entry: PtxEntry) -> Iterator[tuple[int, int]]:
    """First instruction and end of each run that a region may hold, by the opcodes."""
    code, starts = entry.instructions, set(entry.labels.values())
    at = 0
    while at < len(code):
        end, stored = at, False
        while end < len(code) and end - at < LONGEST and (end == at or end not in starts):
            reads = code[end].opcode == "ld" and "param" not in code[end].modifiers
            if (stored and reads) or code[end].opcode not in HELD:
                break
            stored |= code[end].opcode == "st"
            end += 1
        if end - at >= SHORTEST:
            yield at, end
        at = max(end, at + 1)


@remember
def _target() -> IrValue:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=1, jit=True
    )


def _machine_code(module: ir.Module) -> bytes:
    """The object file of a module, from the disk if it is known."""
    text, cpu = str(module), llvm.get_host_cpu_name()
    cache = Cache(default_folder())
    place = key("region", text.encode(), cpu, ".".join(map(str, llvm.llvm_version_info)))
    known = cache.read(place)
    if known is not None:
        return known
    machine, parsed = _target(), llvm.parse_assembly(text)
    parsed.verify()
    builder = llvm.create_pass_builder(machine, llvm.PipelineTuningOptions(speed_level=1))
    builder.getModulePassManager().run(parsed, builder)
    body: bytes = machine.emit_object(parsed)
    cache.write(place, body)
    return body


@dataclass(slots=True)
class RegionFunctions:
    """A region's functions and their registers; `engine` keeps the machine code."""

    run: Function
    check: Function | None
    reads: Mapping[tuple[str, int | str, int], int]
    results: Mapping[int, int]
    engine: object

    @classmethod
    def of(cls, code: RegionCode) -> RegionFunctions:
        module = ir.Module(code.name)
        module.triple = llvm.get_default_triple()
        code.build(module)
        body = _machine_code(module)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_of_engine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(body))
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, *[ctypes.c_void_p] * 4)
        run = kind(engine.get_function_address(code.name))
        check = kind(engine.get_function_address(code.name + "_check")) if code.stores else None
        return cls(run, check, code.reads, code.results, engine)


def _target_of_engine() -> IrValue:
    """An engine owns its target machine."""
    _target()
    return llvm.Target.from_default_triple().create_target_machine(opt=1, jit=True)


class RegionContext:
    """The tables of a machine as the functions take them, renewed for each wave of blocks."""

    def __init__(self, machine: PtxMachine) -> None:
        self.machine, self.words = machine, np.zeros(len(FIELDS), np.int64)
        self.kept: Mapping[str, Array] = {}
        shadow = machine.globals.shadow
        count = 1 if shadow is None else shadow.writes.shape[1] + 8
        self.global_stamp = np.zeros(count, np.int32)

    def renew(self) -> None:
        """Point at the tables of the blocks that are resident now."""
        machine, memory = self.machine, self.machine.globals
        shadow, clocks, shared = memory.shadow, machine.clocks, machine.shadow
        tables = {
            "arena": memory.arena, "starts": memory.starts, "ends": memory.ends, "shared": machine.shared,
            "writer": shared.writer, "written": shared.written, "reads": shared.reads, "read_line": shared.read_line,
            "initialised": shared.initialised, "known": clocks.known, "first_agent": clocks.first_agent,
            "slot_of_warp": machine.slot_of_warp, "block_numbers": machine.block_numbers,
            "write_line": shared.write_line, "atomic": shared.atomic, "global_stamp": self.global_stamp,
            "stamp": np.zeros(len(shared.writer) + 8, np.int32), "parameters": machine.parameter_bytes,
        }  # fmt: skip
        numbers = {
            "buffers": len(memory.starts), "stride": machine.stride, "shared_bytes": machine.shape.shared_bytes,
            "agents": clocks.known.shape[1], "shadowed": int(shadow is not None), "several": int(memory.order is None),
        }  # fmt: skip
        if shadow is not None:
            tables |= {"global_writes": shadow.writes, "global_reads": shadow.reads}
            numbers |= {"granules": shadow.writes.shape[1], "granule": shadow.granule}
            numbers |= {"replicated": int(shadow.replicated)}
        for name, table in tables.items():
            assert table.flags.c_contiguous
            self.words[FIELDS.index(name)] = table.ctypes.data
        for name, number in numbers.items():
            self.words[FIELDS.index(name)] = number
        self.kept = tables

    def is_current(self) -> bool:
        """Whether the tables are of the blocks that are resident now."""
        return self.kept.get("shared") is self.machine.shared

    def next_tick(self) -> None:
        """Another run: the stamps of earlier ones mean nothing."""
        tick = FIELDS.index("tick")
        self.words[tick] += TICK
        if self.words[tick] >= 1 << 31:
            self.words[tick] = TICK
            self.global_stamp[:] = 0
            self.renew()


@dataclass(slots=True)
class RegionSet:
    """The regions of a launch: where their steps are, and what is live after each instruction."""

    steps: list[Step]
    decoder: Decoder
    live: Sequence[int]
    context: RegionContext
    remaining: Callable[[], float]

    def add(self, first: int, end: int, seen: int = 0) -> None:
        """Put a region in the place of its first instruction's step."""
        if end - first >= SHORTEST:
            self.steps[first] = HotRegion(self, first, end, self.steps[first], seen)


@dataclass(slots=True)
class HotRegion:
    """A run of instructions as a step: the interpreter's, until it is hot."""

    regions: RegionSet
    first: int
    end: int
    old: Step
    seen: int = 0
    refused: bool = False
    compiled: RegionFunctions | None = None
    specials: dict[str, Callable[[Gang], Array]] = field(default_factory=dict)
    registers: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def __call__(self, gang: Gang) -> Outcome:
        """Run the region on a gang, or its first instruction in the interpreter."""
        if self.compiled is None and not self.refused:
            self.seen += gang.lanes
            if self._is_worth_compiling():
                self._compile()
        if self.compiled is None or gang.pending or not self._run(gang):
            return self.old(gang)
        return None

    def _is_worth_compiling(self) -> bool:
        """Whether what the interpreter is expected to take still is more than compiling."""
        length, accesses = self.end - self.first, self.accesses
        spent = self.seen * ((length - accesses) * INTERPRETED_S + accesses * INTERPRETED_ACCESS_S)
        cost = COMPILED_REGION_S + (length - accesses) * COMPILED_S + accesses * COMPILED_ACCESS_S
        return spent * (self.regions.remaining() + AGAIN) >= HOT * cost

    @property
    def accesses(self) -> int:
        """The loads and stores."""
        code = self.regions.decoder.entry.instructions[self.first : self.end]
        return sum(i.opcode in ("ld", "st") for i in code)

    def _compile(self) -> None:
        """Compile the longest part that a region holds from here on, and leave the rest to another."""
        decoder = self.regions.decoder
        instructions = decoder.entry.instructions[self.first : self.end]
        fits = next((n for n, i in enumerate(instructions) if not self._fits(i)), len(instructions))
        self.regions.add(self.first + fits + 1, self.end, self.seen)
        self.end = self.first + fits
        self.refused = fits < SHORTEST
        if self.refused:
            return
        code = self._code(instructions[:fits])
        try:
            self.compiled = RegionFunctions.of(code)
        except NotInRegionError:
            self.refused = True
            return
        names = [str(name) for kind, name, _ in self.compiled.reads if kind == "special"]
        self.specials = {name: decoder.special(name, instructions[0]) for name in names}
        self.registers = np.zeros(FIRST_RESULT + len(self.compiled.results) + 1, np.int64)

    def _code(self, instructions: Sequence[PtxInstruction]) -> RegionCode:
        decoder = self.regions.decoder
        granule = decoder.machine.shape.granule
        return RegionCode(instructions, decoder.addresses, granule, f"region_{self.first}", emit_instruction)

    def _fits(self, instruction: PtxInstruction) -> bool:
        try:
            self._code([instruction]).build(ir.Module("trial"))
        except NotInRegionError:
            return False
        return True

    def _run(self, gang: Gang) -> bool:
        compiled, context, lanes = self.compiled, self.regions.context, gang.lanes
        assert compiled is not None
        if not context.is_current():
            context.renew()
        kept: list[Array] = []
        for (kind, name, bits), number in compiled.reads.items():
            if kind == "register":
                array = np.ascontiguousarray(gang.get(int(name), bits))
            else:
                values = self.specials[str(name)](gang).astype(np.uint32)
                array = np.ascontiguousarray(np.broadcast_to(values, (lanes,)))
            kept.append(array)
            self.registers[number] = array.ctypes.data
        made: list[tuple[int, Array]] = []
        widths = self.regions.decoder.entry.widths
        for slot, number in compiled.results.items():
            before = gang.regs[slot] if gang.active is not None else None
            array = np.zeros(lanes, BITS[widths[slot]]) if before is None else before.copy()
            made.append((slot, array))
            self.registers[FIRST_RESULT + number] = array.ctypes.data
        mask = None if gang.active is None else np.ascontiguousarray(gang.active)
        warps = np.ascontiguousarray(gang.lane_warp, np.int64)
        context.next_tick()
        given = (
            lanes, None if mask is None else mask.ctypes.data, self.registers.ctypes.data, context.words.ctypes.data,
            warps.ctypes.data,
        )  # fmt: skip
        if (compiled.check is not None and compiled.check(*given)) or compiled.run(*given):
            return False
        live = self.regions.live[self.end]
        for slot, array in made:
            gang.regs[slot] = array if live >> slot & 1 else None
        gang.pc = self.end
        self.regions.decoder.machine.changes += compiled.check is not None
        return True


def install(steps: list[Step], decoder: Decoder, live: Sequence[int], remaining: Callable[[], float]) -> None:
    """Put regions in the place of the interpreter's steps.

    `remaining` says how many blocks are left, for each that has begun.
    """
    regions = RegionSet(steps, decoder, live, RegionContext(decoder.machine), remaining)
    for first, end in straight_runs(decoder.entry):
        regions.add(first, end)
