"""A traced kernel as MLIR for sm_90a: products of warpgroups as `wgmma`, in place of the `mma.sync` that was traced.

A product is issued, as one group, where the first of its statements was traced. Its registers are waited for in front
of the first statement that uses one, and at the end of the region, so that what was traced in between overlaps:

    scores = lego.mma(q, keys, zeros)           fence, mma_async .., commit_group
    added = lego.mma(p, values, out)            fence, mma_async .., commit_group
    best = scores.max(axis=1)                   wait_group 1: the newer product goes on
    out.set(added)                              wait_group 0

A wait takes the accumulators as operands and gives them back, so that LLVM leaves what uses them behind it, and takes
the registers of the left operand, so that they live until then. Products read shared memory until their wait: a
barrier, an arrival, and a copy into one of their tiles wait for them too. What threads copied or stored is made visible
to the unit by a proxy fence in front of each barrier.

Tiles are in dynamic shared memory, at multiples of the widest swizzle. (PTX ISA, "Asynchronous warpgroup level matrix
instructions", "Async proxy".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lego_mlir.aliases import Location
from lego_mlir.aliases import Value as MlirValue
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.mlir_names import Form
from lego_mlir.tracing.barrier_rings import GO_ON
from lego_mlir.tracing.emit import KernelEmitter
from lego_mlir.tracing.emit_shared import emit_views, tile_offsets
from lego_mlir.tracing.packed_registers import packed_registers
from lego_mlir.tracing.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Constant,
    Convert,
    For,
    FunctionCall,
    If,
    KernelTrace,
    MlirOperation,
    Register,
    Return,
    Statement,
    Store,
    TileStore,
    WarpRole,
    While,
    Write,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.wgmma_products import DEPTH, ROWS, SharedMatrix, WarpgroupProduct

CHUNK_SHIFT: Final = 4
ADDRESS_MASK: Final = 0x3FFFF
"""Shared addresses of a descriptor are of 18 bits, in units of 16 bytes."""
LOW_WORD: Final = 0xFFFFFFFF
_HARMLESS: Final = frozenset({
    "nvvm.bar.warp.sync", "nvvm.vote.sync", "nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group",
})  # fmt: skip
"""Operations of the nvvm dialect that order nothing of what a product reads."""
_NESTED: Final = (For, While, If, FunctionCall)


class LazyValues(dict[int, Any]):
    """The values by number; `land` provides those of products in flight."""

    def __init__(self, land: Callable[[int], MlirValue]) -> None:
        self.land = land

    def __missing__(self, number: int) -> MlirValue:
        return self.land(number)


@dataclass(eq=False, slots=True)
class InFlight:
    """A product that was issued: its accumulators, a struct for each instruction of 64 rows, and its registers of a."""

    product: WarpgroupProduct
    structs: list[MlirValue]
    left: list[MlirValue]
    numbers: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = frozenset(n for line in self.product.results for n in line)


class WarpgroupEmitter(KernelEmitter):
    """Emits one kernel for warpgroups."""

    def __init__(self, trace: KernelTrace, form: Form) -> None:
        super().__init__(trace, form)
        self.dynamic = True
        self._values = LazyValues(self._land_number)
        self._products = {number: product for product in trace.products for number in product.covered}
        self._issued: set[int] = set()  # identities of products
        self._flying: list[InFlight] = []  # oldest first
        self._zeros: set[int] = set()  # the numbers of values that are the constant 0
        self._packs = packed_registers(trace)
        self._first = {second: first for first, second in self._packs.second.items()}
        self._wide: dict[int, int] = {}  # of a value that was rounded to 16 bits, the number of the f32
        self._offsets = tile_offsets(trace, ATOM_BYTES)
        read = {name for product in trace.products for name in product.buffers}
        self._fences = any(_written(s) in read for s in trace.statements())

    # -- shared memory

    def _views(self, types: list[str], location: Location) -> dict[str, MlirValue]:
        return emit_views(Builder(), self.trace, types, location, ATOM_BYTES)

    # -- statements

    def _emit(self, statement: Statement) -> None:
        if id(statement) in self._packs.skipped:
            return
        if id(statement) in self._packs.written and isinstance(statement, Write):
            first = self._first.get(statement.register, statement.register)
            self._registers[first] = self._packed(self._packs.written[id(statement)], first.dtype.mlir)
            return
        product = next((self._products[n] for n in _numbers(statement) if n in self._products), None)
        if product is not None:
            if id(product) not in self._issued:
                self._issued.add(id(product))
                self._issue(product)
            return
        if self._flying and self._needs_all(statement):
            self._land(len(self._flying))
        match statement:
            case Constant(result, number) if number == 0:
                self._zeros.add(result.number)
            case Convert(result, operand) if str(operand.dtype) == "f32" and result.dtype.bits == 16:
                self._wide[result.number] = operand.number
            case Barrier() if self._fences:
                space = {"kind": "#nvvm.proxy_kind<async.shared>", "space": "#nvvm.shared_space<cta>"}
                self.printer.build.operation("nvvm.fence.proxy", (), (), space)
            case _:
                pass
        super()._emit(statement)

    def _needs_all(self, statement: Statement) -> bool:
        """Whether a statement needs all products in flight to be complete."""
        if isinstance(statement, For | While | Return):
            return True
        if isinstance(statement, If | FunctionCall):
            return any(self._needs_all(s) or self._uses(s) or _numbers(s) & self._products.keys()
                       for s in statements_in((statement,)) if s is not statement)  # fmt: skip
        if isinstance(statement, MlirOperation):
            return GO_ON not in statement.attributes and (
                statement.name.startswith(("nvvm.", "llvm.fence", "nvgpu.mbarrier.arrive"))
                and statement.name not in _HARMLESS
            )
        written = _written(statement)
        return (isinstance(statement, Barrier) and statement.waits) or any(
            written in f.product.buffers for f in self._flying
        )

    def _uses(self, statement: Statement) -> bool:
        used = {value.number for value in operands_of(statement)}
        return any(used & f.numbers for f in self._flying)

    def _register_type(self, register: Register) -> str:
        return "i32" if register in self._packs.second else super()._register_type(register)

    def _condition_of(self, branch: If) -> MlirValue:
        """Of a role by the number of the warp, so that what it computes is known to be the same for all lanes."""
        if not isinstance(branch.mark, WarpRole):
            return super()._condition_of(branch)
        build, warp = self.printer.build, self._warp()
        first, end = (build.constant(n, "i32") for n in (branch.mark.first, branch.mark.end))
        from_first = build.value("arith.cmpi", (warp, first), "i1", {"predicate": "9 : i64"})
        to_end = build.value("arith.cmpi", (warp, end), "i1", {"predicate": "6 : i64"})
        return build.value("arith.andi", (from_first, to_end), "i1")

    def _emit_body(self, body: Sequence[Statement]) -> None:
        before = len(self._flying)
        super()._emit_body(body)
        if len(self._flying) > before:  # those that were issued in this region
            self._land(len(self._flying))

    # -- products

    def _issue(self, product: WarpgroupProduct) -> None:
        """The instructions of a product as one group, in one piece of assembly for each 64 rows."""
        build = self.printer.build
        right = self._start(product.b, 0)
        structs, read = [], []
        for row, accumulators in enumerate(product.accumulators):
            zero = all(n in self._zeros for n in accumulators)
            sums = [] if zero else [self._values[n] for n in accumulators]
            if isinstance(product.a, SharedMatrix):
                left = [self._start(product.a, row)]
            else:
                left = [self._packed(pair, product.dtype.mlir) for step in product.a[row] for pair in _pairs(step)]
                read += left
            last = row + 1 == len(product.accumulators)
            text = assembly(product, row, zero=zero, last=last)
            outs = "=&f" if zero else "=f"
            count = len(accumulators)
            constraints = [outs] * count + [str(i) for i in range(len(sums))] + ["r"] * (len(left) + 1)
            struct = f"!llvm.struct<({', '.join(['f32'] * count)})>"
            structs.append(build.value("llvm.inline_asm", [*sums, *left, right], struct, _asm(text, constraints)))
        self._flying.append(InFlight(product, structs, read))

    def _start(self, matrix: SharedMatrix, row: int) -> MlirValue:
        """The low word of the descriptor of an operand's first instruction, for this thread's warpgroup.

        It is the same for the lanes of a warp, and broadcast, so that descriptors stay in uniform registers; once in a
        region.
        """
        name = f"start {matrix.position} {matrix.buffer.name} {matrix.group_step} {matrix.descriptor}"
        return self.printer.remember(name, "i32", lambda _: self._broadcast(self._start_now(matrix)))

    def _start_now(self, matrix: SharedMatrix) -> MlirValue:
        build = self.printer.build
        position = build.cast_integer(self.printer.value(matrix.position, "index"), "i32")
        address = build.value("arith.muli", (position, build.constant(matrix.buffer.dtype.bytes, "i32")), "i32")
        base = build.value(
            "arith.addi", (self._root(), build.constant(self._offsets[matrix.buffer.name], "i32")), "i32"
        )
        address = build.value("arith.addi", (base, address), "i32")
        if matrix.group_step:
            group = build.value("arith.shrui", (self._warp(), build.constant(2, "i32")), "i32")
            step = build.value("arith.muli", (group, build.constant(matrix.group_step, "i32")), "i32")
            address = build.value("arith.addi", (address, step), "i32")
        masked = build.value("arith.andi", (address, build.constant(ADDRESS_MASK, "i32")), "i32")
        chunk = build.value("arith.shrui", (masked, build.constant(CHUNK_SHIFT, "i32")), "i32")
        return build.value("arith.ori", (chunk, build.constant(matrix.descriptor.word & LOW_WORD, "i32")), "i32")

    def _root(self) -> MlirValue:
        """The address of dynamic shared memory."""

        def make(_: object) -> MlirValue:
            build = self.printer.build
            memory = build.value("gpu.dynamic_shared_memory", (), "memref<?xi8, #gpu.address_space<workgroup>>")
            address = build.value("memref.extract_aligned_pointer_as_index", (memory,), "index")
            return build.cast_integer(address, "i32")

        return self.printer.remember("shared root", "i32", make)

    def _warp(self) -> MlirValue:
        """The number of the warp in its block, the same register for all its lanes."""

        def make(_: object) -> MlirValue:
            build = self.printer.build
            thread = build.value("nvvm.read.ptx.sreg.tid.x", (), "i32")
            return self._broadcast(build.value("arith.shrui", (thread, build.constant(5, "i32")), "i32"))

        return self.printer.remember("warp", "i32", make)

    def _broadcast(self, value: MlirValue) -> MlirValue:
        """The value of lane 0, which all lanes have, as a value that is known to be the same for them."""
        build = self.printer.build
        operands = (build.constant(-1, "i32"), value, build.constant(0, "i32"), build.constant(31, "i32"))
        return build.value("nvvm.shfl.sync", operands, "i32", {"kind": "#nvvm<shfl_kind idx>"})

    def _packed(self, pair: tuple[int, int], dtype: str) -> MlirValue:
        """Two elements of the left operand as a word; of two that were rounded from f32, by one conversion."""
        build = self.printer.build
        if self._packs.first_of(pair[0]) is not None:
            return self._values[pair[0]]
        if all(n in self._wide for n in pair):
            low, high = (self._values[self._wide[n]] for n in pair)
            rounding = {"rnd": "#nvvm.fp_rnd_mode<rn>"}
            both = build.value(f"nvvm.convert.f32x2.to.{dtype}x2", (high, low), f"vector<2x{dtype}>", rounding)
        else:
            both = build.value("vector.from_elements", [self._values[n] for n in pair], f"vector<2x{dtype}>")
        return build.value("llvm.bitcast", (both,), "i32")

    # -- waits

    def _land_number(self, number: int) -> MlirValue:
        """The value of this number, from a product in flight."""
        for position, flying in enumerate(self._flying):
            if number in flying.numbers:
                self._land(position + 1)
                return self._values[number]
        raise KeyError(number)

    def _land(self, count: int) -> None:
        """Wait for the `count` oldest products, and define their values."""
        if not count:
            return
        landed, self._flying = self._flying[:count], self._flying[count:]
        build = self.printer.build
        lines = [
            (numbers, struct)
            for flying in landed
            for numbers, struct in zip(flying.product.results, flying.structs, strict=True)
        ]
        pending = [
            build.value("llvm.extractvalue", (struct,), "f32", {"position": f"array<i64: {i}>"})
            for numbers, struct in lines
            for i in range(len(numbers))
        ]
        left = [value for flying in landed for value in flying.left]
        constraints = ["=f"] * len(pending) + [str(i) for i in range(len(pending))] + ["r"] * len(left)
        text = f"wgmma.wait_group.sync.aligned {len(self._flying)};"
        kind = f"!llvm.struct<({', '.join(['f32'] * len(pending))})>"
        made = build.value("llvm.inline_asm", [*pending, *left], kind, _asm(text, constraints))
        for place, number in enumerate(n for numbers, _ in lines for n in numbers):
            position = {"position": f"array<i64: {place}>"}
            self._values[number] = build.value("llvm.extractvalue", (made,), "f32", position)


def assembly(product: WarpgroupProduct, row: int, *, zero: bool, last: bool) -> str:
    """The instructions of 64 rows, with `zero` the first ignores the accumulators; after the last row a commit."""
    count = product.columns // 2
    following = count if zero else 2 * count
    sums = f"{{{', '.join(f'${i}' for i in range(count))}}}"
    kind = f"m{ROWS}n{product.columns}k{DEPTH}.f32.{product.dtype.mlir}.{product.dtype.mlir}"
    by_descriptor = isinstance(product.a, SharedMatrix)
    right = f"${following + (1 if by_descriptor else 4 * product.steps)}"
    lines = ["{", ".reg .pred p;", ".reg .b32 s;", ".reg .b64 a, b;", "wgmma.fence.sync.aligned;"]
    for step in range(product.steps):
        lines += _built("b", right, product.b, 0, step)
        if isinstance(product.a, SharedMatrix):
            lines += _built("a", f"${following}", product.a, row, step)
            left, majors = "a", f"{_transposed(product.a)}, {_transposed(product.b)}"
        else:
            left = f"{{{', '.join(f'${following + 4 * step + i}' for i in range(4))}}}"
            majors = _transposed(product.b)
        lines.append(f"setp.ne.b32 p, {0 if zero and step == 0 else 1}, 0;")
        lines.append(f"wgmma.mma_async.sync.aligned.{kind} {sums}, {left}, b, p, 1, 1, {majors};")
    lines += ["wgmma.commit_group.sync.aligned;"] if last else []
    return "\n".join([*lines, "}"])


def _built(name: str, start: str, matrix: SharedMatrix, row: int, step: int) -> list[str]:
    """A descriptor from the low word of the first one: what follows differs in its start alone."""
    high = matrix.descriptor.word >> 32
    return [f"add.s32 s, {start}, {matrix.starts[row][step] >> CHUNK_SHIFT};", f"mov.b64 {name}, {{s, {high}}};"]


def _transposed(matrix: SharedMatrix) -> str:
    return "0" if matrix.descriptor.contiguous == "k" else "1"


def _asm(text: str, constraints: Sequence[str]) -> dict[str, str]:
    escaped = text.replace("\n", "\\0A\\09")
    return {
        "asm_string": f'"{escaped}"',
        "constraints": f'"{",".join(constraints)}"',
        "has_side_effects": "unit",
        "asm_dialect": "0 : i64",
    }


def _pairs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _numbers(statement: Statement) -> set[int]:
    """The numbers of what a statement defines."""
    if isinstance(statement, MlirOperation):
        return {value.number for value in statement.results}
    result = getattr(statement, "result", None)
    return set() if result is None else {result.number}


def _written(statement: Statement) -> str | None:
    """The name of the shared tile that a statement writes."""
    match statement:
        case Store(access=access) | AsyncCopy(target=access) | Atomic(access=access):
            return access.buffer.name if access.buffer.space == "workgroup" else None
        case TileStore(buffer=buffer):
            return buffer.name
        case _:
            return None
