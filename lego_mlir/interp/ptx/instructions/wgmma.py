"""wgmma: D = A B + D by four warps, A from shared memory or registers, B from shared memory; it lands at its wait.

Each warp of the group computes 16 of the 64 rows. Element i of lane 4 * g + t is at row g + 8 * (i // 2 % 2) and
column 8 * (i // 4) + 2 * t + i % 2 of the warp's rows. The operands in shared memory are read when the instruction
lands, at the `wait_group` that covers it: releasing its stage early is a race. A warp's wait covers its own reads; for
copies through the asynchronous proxy and stores of other groups, those of its group, as one thread of a group releases
a stage in CUTLASS. A store by the group itself to what its other warps read needs a barrier after their waits, but in
Triton's text, which takes a wait for one. Registers must not be touched before the wait. With `.sp`, A keeps two of
each four neighbours of a row, and each warp gives the metadata of its rows as for `mma.sp`. Before the first wgmma, and
after other instructions wrote its registers, `wgmma.fence` is needed.
PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, Dtype, IntArray
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import rounding
from lego_mlir.interp.mma_fragments import ascending, kept_columns, left_places, metadata_threads, spread_out
from lego_mlir.interp.ptx.address_spaces import OFFSET_MASK, SHARED_BASE
from lego_mlir.interp.ptx.decoder import Decoder, Source, opcode
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.group_queues import GroupQueue
from lego_mlir.interp.ptx.ptx_machine import Outcome, PtxMachine, Step
from lego_mlir.interp.ptx.ptx_program import Immediate, OperandList, PtxInstruction, PtxOperand, PtxRegister
from lego_mlir.interp.ptx.ptx_types import NUMPY
from lego_mlir.interp.ptx.warp_convergence import whole_warps
from lego_mlir.interp.ptx.wgmma_descriptors import DecodedDescriptor, grid
from lego_mlir.interp.report import Kind
from lego_mlir.interp.shared_shadow import WGMMA_AGENT, ShadowAccess

ROWS_OF_WARP: Final = 16
GROUP_WARPS: Final = 4
GROUP_ROWS: Final = 64
DEPTHS: Final = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
LANE: Final = np.arange(WARP)


@dataclass(frozen=True, slots=True)
class WgmmaForm:
    """What is the same for all executions of one instruction."""

    n: int
    k: int
    result: str
    left: str
    right: str
    accumulators: tuple[int, ...]
    left_registers: tuple[int, ...]
    left_k_major: bool
    right_k_major: bool
    left_sign: int
    right_sign: int
    line: int
    saturates: bool = False
    selector: int | None = None
    """Of the lanes that have the metadata of a sparse A; None for a dense one."""

    @property
    def kept(self) -> int:
        """Columns of A that are stored."""
        return self.k if self.selector is None else self.k // 2


@dataclass(frozen=True, slots=True)
class WgmmaOperation:
    """One warp's part: descriptors (A's is None where registers hold it), and whether D is added."""

    form: WgmmaForm
    left: int | None
    left_values: Array | None
    right: int
    adds: bool
    clock: int
    metadata: Array | None = None


@dataclass(eq=False, slots=True)
class WarpgroupOperation:
    """The operation of the whole group: how many warps issued it, and its operands once it has landed."""

    right_bits: int
    left_bits: int | None
    issued: int = 0
    left: Array | None = None
    right: Array | None = None
    waiting: list[Gang] = field(default_factory=list)


def queues(machine: PtxMachine) -> dict[int, GroupQueue[WgmmaOperation]]:
    """The queues by resident warp."""
    return machine.states("wgmma")


def group_operations(machine: PtxMachine) -> dict[tuple[int, int], WarpgroupOperation]:
    """The operations of warpgroups, by the group's first warp and the operation's number."""
    return machine.states("warpgroups")


def leader(machine: PtxMachine, warp: int) -> int:
    """The first warp of a warp's group."""
    return warp - warp % machine.shape.warps % GROUP_WARPS


def _group_size(machine: PtxMachine, warp: int) -> int:
    first = leader(machine, warp) % machine.shape.warps
    return min(GROUP_WARPS, machine.shape.warps - first)


@opcode("wgmma", whole=True)
def build_wgmma(decoder: Decoder, instruction: PtxInstruction) -> Step:
    """`wgmma.fence`, `.mma_async`, `.commit_group`, `.wait_group`."""
    form = instruction.modifiers[0]
    if form == "mma_async":
        return _mma(decoder, instruction)
    machine, pc = decoder.machine, decoder.pc
    if form == "fence":
        return _fence(machine)
    if form == "commit_group":

        def commit(gang: Gang) -> None:
            for warp in gang.warps:
                queues(machine).setdefault(int(warp), GroupQueue()).commit()

        return commit
    if form == "wait_group" and isinstance(instruction.operands[0], Immediate):
        left = int(instruction.operands[0].value)

        def wait(gang: Gang) -> Outcome:
            missing = _not_issued(machine, gang, left)
            if missing is not None:
                gang.pc = pc
                missing.waiting.append(gang)
                return machine.park(gang, "the other warps of its warpgroup, to issue their part of a wgmma")
            _land(machine, gang, left)
            return None

        return wait
    raise decoder.refused(instruction, f"wgmma.{form} in this form is not modelled")


def _fence(machine: PtxMachine) -> Step:
    def fence(gang: Gang) -> None:
        gang.fenced = list(gang.regs)

    return fence


# --- issue ------------------------------------------------------------------------------------------------------------


def _slots(decoder: Decoder, instruction: PtxInstruction, operand: PtxOperand) -> tuple[int, ...]:
    found = []
    for item in decoder.items(operand):
        if not isinstance(item, PtxRegister):
            raise decoder.refused(instruction, f"{item} is not a register")
        found.append(item.slot)
    return tuple(found)


def _form(decoder: Decoder, instruction: PtxInstruction) -> WgmmaForm:
    """Read the shape, the types, and the constants after the operands."""
    shape = next((f for m in instruction.modifiers if (f := re.fullmatch(r"m64n(\d+)k(\d+)", m))), None)
    types = [m for m in instruction.modifiers if m in NUMPY]
    if shape is None or len(types) != 3 or types[1] not in DEPTHS or (is_sparse(instruction) and types[1] == "tf32"):
        raise decoder.refused(instruction, "its shape or types are not modelled")
    n, k = int(shape[1]), int(shape[2])
    depth = k // (1 + is_sparse(instruction))
    if n % 8 or not 8 <= n <= 256 or depth != DEPTHS[types[1]] or DEPTHS.get(types[2]) != depth:
        raise decoder.refused(
            instruction, f"m64n{n}k{k} of {types[1]}: n is a multiple of 8 to 256, k matches the type"
        )
    d, a, *_ = instruction.operands
    after = instruction.operands[5 if is_sparse(instruction) else 3 :]
    constants = [o.value for o in after if isinstance(o, Immediate)]
    if after and isinstance(after[0], Immediate):
        constants = constants[1:]  # scale-d
    signs = [int(c) for c in constants[:2]] if types[0] != "s32" else []
    flips = [bool(c) for c in constants[2:]]
    from_registers = isinstance(a, OperandList)
    right_flip = flips[-1] if flips else False
    left_flip = flips[0] if flips and not from_registers else False
    accumulators = _slots(decoder, instruction, d)
    expected = n // 2 if types[0] != "f16" else n // 4
    if len(accumulators) != expected:
        raise decoder.refused(instruction, f"{len(accumulators)} accumulators, where m64n{n} has {expected}")
    left, right = (signs[0] if signs else 1), (signs[1] if len(signs) > 1 else 1)
    registers = _slots(decoder, instruction, a) if from_registers else ()
    return WgmmaForm(
        n, k, types[0], types[1], types[2], accumulators, registers, not left_flip, not right_flip, left, right,
        instruction.line, "satfinite" in instruction.modifiers, _selector(decoder, instruction, k, types[1]),
    )  # fmt: skip


def is_sparse(instruction: PtxInstruction) -> bool:
    """Whether A keeps two of each four neighbours."""
    return "sp" in instruction.modifiers


def _selector(decoder: Decoder, instruction: PtxInstruction, k: int, type_: str) -> int | None:
    if not is_sparse(instruction):
        return None
    given, choices = instruction.operands[4], WARP // 8 // metadata_threads(k, NUMPY[type_].itemsize)
    if not isinstance(given, Immediate) or int(given.value) not in range(choices):
        raise decoder.refused(instruction, f"the selector of this shape is 0 to {choices - 1}")
    return int(given.value)


def _mma(decoder: Decoder, instruction: PtxInstruction) -> Step:
    form = _form(decoder, instruction)
    _, a, b, *rest = instruction.operands
    places = decoder.source(rest[0], "b32", instruction) if is_sparse(instruction) else None
    rest = rest[2:] if is_sparse(instruction) else rest
    right = decoder.source(b, "u64", instruction)
    left: Source | None = None
    values: list[Source] = []
    if form.left_registers:
        values = [decoder.source(item, "u32", instruction) for item in decoder.items(a)]
    else:
        left = decoder.source(a, "u64", instruction)
    adds = decoder.source(rest[0], "pred", instruction) if rest else None
    machine, line = decoder.machine, instruction.line

    def run(gang: Gang) -> None:
        _require_fence(machine, gang, form, line)
        lanes = gang.lanes
        rights = np.broadcast_to(right(gang), (lanes,))
        lefts = None if left is None else np.broadcast_to(left(gang), (lanes,))
        truth = np.ones(lanes, np.bool_) if adds is None else np.broadcast_to(adds(gang), (lanes,))
        words = np.array([np.broadcast_to(v(gang), (lanes,)) for v in values], np.uint32)
        metadata = None if places is None else np.broadcast_to(places(gang), (lanes,)).reshape(-1, WARP)
        for row, warp in enumerate(map(int, gang.warps)):
            lane = row * WARP
            _, clock = machine.clocks.issue(warp, WGMMA_AGENT)
            held = words[:, lane : lane + WARP] if len(values) else None
            left_bits = None if lefts is None else int(lefts[lane])
            kept = None if metadata is None else _kept_by(machine, gang, row, form, metadata)
            operation = WgmmaOperation(form, left_bits, held, int(rights[lane]), bool(truth[lane]), clock, kept)
            queues(machine).setdefault(warp, GroupQueue()).open.append(operation)
            _join_group(machine, gang, row, operation)
            _enter_reads(machine, gang, row, operation)
        gang.pending = gang.pending | frozenset(form.accumulators) | frozenset(form.left_registers)

    return whole_warps(decoder, run)


def _kept_by(machine: PtxMachine, gang: Gang, row: int, form: WgmmaForm, words: Array) -> Array:
    """The columns that a warp's 16 rows of A keep."""
    assert form.selector is not None
    columns, valid = kept_columns(words[row], form.k, NUMPY[form.left].itemsize, form.selector)
    valid = valid & ascending(columns)
    if not valid.all():
        line, _ = np.argwhere(~valid)[0]
        message = f"the metadata of wgmma is invalid for row {line}: it names one place twice, or in no order"
        machine.fault(Kind.UNDEFINED, message, gang, row * WARP + 4 * (int(line) % 8), form.line)
    return columns


def _join_group(machine: PtxMachine, gang: Gang, row: int, operation: WgmmaOperation) -> None:
    """Count the warp's issue; all warps of the group must give the same descriptors."""
    warp = int(gang.warps[row])
    key = leader(machine, warp), operation.clock
    group = group_operations(machine).setdefault(key, WarpgroupOperation(operation.right, operation.left))
    if (group.right_bits, group.left_bits) != (operation.right, operation.left):
        message = f"the warps of a warpgroup give different descriptors, {group.right_bits:#x} and {operation.right:#x}"
        machine.fault(Kind.OUT_OF_BOUNDS, message, gang, row * WARP, operation.form.line)
    group.issued += 1
    if group.issued == _group_size(machine, warp):
        waiting, group.waiting = group.waiting, []
        for other in waiting:
            machine.wake(other)


def _require_fence(machine: PtxMachine, gang: Gang, form: WgmmaForm, line: int) -> None:
    """Registers that other instructions wrote since the last fence, or that none has covered.

    LLVM copies the accumulators of inline assembly into the registers that it ties to them, after the fence; Triton's
    text has such copies, and ptxas removes them.
    """
    fenced, copies = gang.fenced or [], not machine.checks.fenced_barriers
    covered = {held.ctypes.data for held in fenced if held is not None} if copies else set()
    for slot in (*form.accumulators, *form.left_registers):
        register = gang.regs[slot]
        if slot in gang.pending or (register is not None and register.ctypes.data in covered):
            continue
        if not fenced or fenced[slot] is not register:
            message = "a register of this wgmma was written after the last wgmma.fence; add one before it"
            machine.fault(Kind.UNFENCED, message, gang, int(gang.live()[0]), line)
            return


def _places(machine: PtxMachine, warp: int, operation: WgmmaOperation) -> tuple[IntArray | None, IntArray]:
    """The arena positions of A's rows of the warpgroup, (64, k), and of B, (n, k)."""
    form = operation.form
    base = int(machine.slot_of_warp[warp]) * machine.stride
    right_size = NUMPY[form.right].itemsize
    descriptor = DecodedDescriptor.decoded(operation.right)
    right = descriptor.addresses(*grid(form.n, form.k), right_size, k_major=form.right_k_major) + base
    if operation.left is None:
        return None, right
    size = NUMPY[form.left].itemsize
    left = DecodedDescriptor.decoded(operation.left)
    return left.addresses(*grid(GROUP_ROWS, form.kept), size, k_major=form.left_k_major) + base, right


def _rows_of(machine: PtxMachine, warp: int) -> slice:
    """The warp's rows of the group's 64."""
    first = warp % machine.shape.warps % GROUP_WARPS * ROWS_OF_WARP
    return slice(first, first + ROWS_OF_WARP)


def _enter_reads(machine: PtxMachine, gang: Gang, row: int, operation: WgmmaOperation) -> None:
    """The warp's reads of A and B in the shadow, at the operation's clock."""
    warp = int(gang.warps[row])
    slot = int(machine.slot_of_warp[warp])
    one = np.array([warp])
    agent = machine.clocks.first_agent[one] + WGMMA_AGENT
    known = machine.clocks.through_async_proxy(one)
    left, right = _places(machine, warp, operation)
    for places in (right,) if left is None else (left[_rows_of(machine, warp)], right):
        chunks = np.unique(places // 16 * 16)
        offsets = chunks - slot * machine.stride
        outside = (offsets < SHARED_BASE) | (offsets + 16 > machine.shape.shared_bytes) | (offsets > OFFSET_MASK)
        line = operation.form.line
        if outside.any():
            message = f"wgmma reads shared byte {int(offsets[np.argmax(outside)])}, outside of the block's memory"
            machine.fault(Kind.OUT_OF_BOUNDS, message, gang, row * WARP, line, count=int(outside.sum()))
            chunks = chunks[~outside]
            if not len(chunks):
                continue
        access = ShadowAccess(chunks, 16, agent, np.array([operation.clock]), known, line)
        missing = machine.shadow.uninitialised(access)
        if len(missing):
            message = f"wgmma reads {16 * len(missing)} bytes of shared memory that were never written"
            machine.fault(Kind.UNINITIALISED, message, gang, row * WARP, line)
        machine.report_proxy_conflict(machine.shadow.read(access), "this wgmma's read", gang, row * WARP, line)


# --- landing ----------------------------------------------------------------------------------------------------------


def _not_issued(machine: PtxMachine, gang: Gang, left: int) -> WarpgroupOperation | None:
    """An operation to land that some warp of the group has not issued."""
    for warp in map(int, gang.warps):
        for operation in queues(machine).get(warp, GroupQueue()).covered(left):
            found = group_operations(machine)[leader(machine, warp), operation.clock]
            if found.issued < _group_size(machine, warp):
                return found
    return None


def _land(machine: PtxMachine, gang: Gang, left: int) -> None:
    """Perform all groups of the gang's warps but the last `left`, and let their registers be used."""
    results: dict[int, dict[int, Array]] = {}
    pending: frozenset[int] = frozenset()
    for row, warp in enumerate(map(int, gang.warps)):
        queue = queues(machine).get(warp)
        if queue is None:
            continue
        matrices: dict[tuple[int, ...], tuple[WgmmaForm, Array]] = {}
        for operation in queue.covered(left):
            _perform(machine, gang, row, operation, matrices)
            first = leader(machine, warp)
            group = np.arange(first, first + _group_size(machine, warp))
            machine.clocks.learn_product(warp, group, operation.clock, whole=not machine.checks.fenced_barriers)
        for slots, (form, matrix) in matrices.items():
            for slot, words in zip(slots, to_words(matrix, form), strict=True):
                results.setdefault(slot, {})[row] = words
        queue.drop(left)
        for operation in queue:
            pending |= {*operation.form.accumulators, *operation.form.left_registers}
    _write_results(gang, results)
    gang.pending = pending
    moves, gang.deferred = gang.deferred, ()
    for move in moves:
        if move.sources.isdisjoint(gang.pending):
            move.perform(gang)
        else:
            gang.deferred = (*gang.deferred, move)
            gang.pending = gang.pending | move.targets


def _write_results(gang: Gang, results: dict[int, dict[int, Array]]) -> None:
    for slot, by_row in results.items():
        old = gang.get(slot, 32)
        value = old.copy().reshape(-1, WARP)
        for row, words in by_row.items():
            value[row] = words
        was_fenced = gang.fenced is not None and gang.fenced[slot] is old
        gang.regs[slot] = value.reshape(-1)
        if was_fenced and gang.fenced is not None:
            gang.fenced[slot] = gang.regs[slot]


def _perform(
    machine: PtxMachine,
    gang: Gang,
    row: int,
    operation: WgmmaOperation,
    matrices: dict[tuple[int, ...], tuple[WgmmaForm, Array]],
) -> None:
    """D of one warp, (16, n) in f64, rounded after each instruction."""
    form = operation.form
    warp = int(gang.warps[row])
    group = group_operations(machine)[leader(machine, warp), operation.clock]
    if group.right is None:
        left_at, right_at = _places(machine, warp, operation)
        group.right = _matrix(machine, right_at, form.right).T * form.right_sign
        group.left = None if left_at is None else _matrix(machine, left_at, form.left)
    if group.left is not None:
        a = group.left[_rows_of(machine, warp)]
    else:
        assert operation.left_values is not None
        a = _register_matrix(operation.left_values, form)
    if operation.metadata is not None:
        a = spread_out(a, operation.metadata, form.k)
    product = (a * form.left_sign) @ group.right
    if operation.adds:
        if form.accumulators not in matrices:
            registers = [gang.get(s, 32)[row * WARP : (row + 1) * WARP] for s in form.accumulators]
            matrices[form.accumulators] = form, from_words(np.array(registers, np.uint32), form)
        product = product + matrices[form.accumulators][1]
    matrices[form.accumulators] = form, _rounded(product, form)


def shared_values(machine: PtxMachine, places: IntArray, dtype: Dtype) -> Array:
    """Elements of shared memory at arena positions; what is outside is read at its edge."""
    words = machine.shared.view(np.dtype(f"u{dtype.itemsize}"))
    return words[np.clip(places // dtype.itemsize, 0, len(words) - 1)].view(dtype)


def _matrix(machine: PtxMachine, places: IntArray, type_: str) -> Array:
    """Elements at arena positions, as f64; zeros outside of shared memory."""
    values = shared_values(machine, places, NUMPY[type_])
    if type_ == "tf32":
        values = rounding.tf32(values)
    found: Array = values.astype(np.float32).astype(np.float64)
    return found


def _register_matrix(words: Array, form: WgmmaForm) -> Array:
    """A of one warp from its registers."""
    dtype = NUMPY[form.left]
    values = np.ascontiguousarray(words)[..., None].view(dtype)
    if form.left == "tf32":
        values = rounding.tf32(values)
    row, column = left_places(ROWS_OF_WARP, len(words), values.shape[-1])
    matrix = np.zeros((ROWS_OF_WARP, form.kept))
    matrix[row, column] = values.astype(np.float32)
    return matrix


def _element_places(n: int) -> tuple[IntArray, IntArray]:
    i = np.arange(n // 2)[:, None]
    return LANE // 4 + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * (LANE % 4) + i % 2


def from_words(words: Array, form: WgmmaForm) -> Array:
    """(registers, 32) of one warp as its 16 x n matrix."""
    row, column = _element_places(form.n)
    matrix = np.zeros((ROWS_OF_WARP, form.n))
    if form.result == "f16":
        pairs = np.ascontiguousarray(words)[..., None].view(np.float16)
        matrix[row, column] = pairs.swapaxes(1, 2).reshape(-1, WARP)
    else:
        matrix[row, column] = words.view(np.float32 if form.result == "f32" else np.int32)
    return matrix


def to_words(matrix: Array, form: WgmmaForm) -> Array:
    """The 16 x n matrix of one warp as (registers, 32)."""
    row, column = _element_places(form.n)
    found = matrix[row, column]
    if form.result == "f16":
        pairs = found.astype(np.float16).reshape(-1, 2, WARP).swapaxes(1, 2)
        words: Array = np.ascontiguousarray(pairs).view(np.uint32)[..., 0]
        return words
    if form.result == "f32":
        return found.astype(np.float32).view(np.uint32)
    return found.astype(np.int64).astype(np.int32).view(np.uint32)


def _rounded(matrix: Array, form: WgmmaForm) -> Array:
    if form.result == "s32":
        return matrix.clip(-(1 << 31), (1 << 31) - 1) if form.saturates else matrix
    return matrix.astype(np.float32 if form.result == "f32" else np.float16).astype(np.float64)
