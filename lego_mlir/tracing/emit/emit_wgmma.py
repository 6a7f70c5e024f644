"""A traced kernel as MLIR for sm_90a: products of warpgroups as `wgmma`, in place of the `mma.sync` that was traced.

A product is issued, as one group, where the first of its statements was traced. Its registers are waited for in front
of the first statement that uses one, and at the end of the region, so that what was traced in between overlaps:

    scores = lego.mma(q, keys, zeros)           fence, mma_async .., commit_group
    added = lego.mma(p, values, out)            fence, mma_async .., commit_group
    best = scores.max(axis=1)                   wait_group 1: the newer product goes on
    out.set(added)                              wait_group 0

A wait takes the accumulators as operands and gives them back, so that LLVM leaves what uses them after it, and takes
the registers of the left operand, so that they live until then. Products read shared memory until their wait: a
barrier, an arrival, and a copy into one of their tiles wait for them too. What threads copied or stored is made visible
to the unit by a proxy fence in front of each barrier.

Tiles are in dynamic shared memory, at multiples of the widest swizzle. (PTX ISA, "Asynchronous warpgroup level matrix
instructions", "Async proxy".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import sympy

from lego_mlir.aliases import Attribute, Expr, Location, Symbol
from lego_mlir.aliases import Value as MlirValue
from lego_mlir.expr.nodes import FloorMod, Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.mlir_names import Form
from lego_mlir.tracing.emit.carried_products import CarriedSums, carried_sums, flat, is_word, numbers_of
from lego_mlir.tracing.emit.emit_meetings import emit_meeting
from lego_mlir.tracing.emit.emit_module import KernelEmitter
from lego_mlir.tracing.emit.emit_shared import emit_views, tile_offsets
from lego_mlir.tracing.emit.packed_registers import in_words, packed_registers
from lego_mlir.tracing.emit.proxy_fences import fenced_arrivals, fenced_waits
from lego_mlir.tracing.emit.reused_sums import reused_sums
from lego_mlir.tracing.emit.wgmma_assembly import CHUNK_SHIFT, CONSTRAINTS, assembly, sum_type, with_operands
from lego_mlir.tracing.trace.marks import (
    Dependent,
    MatrixStores,
    Meeting,
    RingCopy,
    RingMade,
    RingPass,
    TileCopy,
    WarpRole,
)
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    Barrier,
    Constant,
    Convert,
    For,
    FromIndex,
    FunctionCall,
    If,
    KernelTrace,
    MlirOperation,
    Read,
    Register,
    Return,
    Statement,
    Store,
    TileStore,
    While,
    Write,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.trace.wgmma_products import SharedMatrix, WarpgroupProduct
from lego_mlir.tracing.words.barrier_rings import ARRIVE, GO_ON, INIT, PREVIOUS
from lego_mlir.tracing.words.clustered_blocks import CAST
from lego_mlir.tracing.words.warp_roles import WARPGROUP
from lego_mlir.transforms.kernel_facts import DEPENDENT_ATTRIBUTE

BYTES: Final = 4
"""Of a word."""
ADDRESS_MASK: Final = 0x3FFFF
"""Shared addresses of a descriptor are of 18 bits, in units of 16 bytes."""
LOW_WORD: Final = 0xFFFFFFFF
_HARMLESS: Final = frozenset({
    "nvvm.bar.warp.sync", "nvvm.vote.sync", "nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group",
})  # fmt: skip
"""Operations of the nvvm dialect that order nothing of what a product reads."""


class LazyValues(dict[int, Any]):
    """The values by number; `land` provides those of products in flight."""

    def __init__(self, land: Callable[[int], MlirValue]) -> None:
        self.land = land

    def __missing__(self, number: int) -> MlirValue:
        return self.land(number)


@dataclass(eq=False, slots=True)
class InFlight:
    """A product that was issued, and its registers of a."""

    product: WarpgroupProduct
    left: list[MlirValue]
    pending: dict[int, MlirValue] = field(default_factory=dict)
    continued: bool = False
    numbers: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {n for line in self.product.results for n in line}


class WarpgroupEmitter(KernelEmitter):
    """Emits one kernel for warpgroups."""

    def __init__(self, trace: KernelTrace, form: Form) -> None:
        super().__init__(trace, form)
        self.dynamic = True
        self._values = LazyValues(self._land_number)
        self._products = {number: product for product in trace.products for number in product.covered}
        self._issued: set[int] = set()  # identities of products
        self._flying: list[InFlight] = []  # oldest first
        self._accumulating: list[CarriedSums] = []
        self._held: dict[Register, int] = {}  # registers whose value is a number in flight
        self._zeros: set[int] = set()  # the numbers of values that are the constant 0
        self._packs = packed_registers(trace)
        self._first = {register: word[0] for word in self._packs.words.values() for register in word}
        self._wide: dict[int, int] = {}  # of a value that was rounded to 16 bits or f8, the number of the f32
        self._offsets = tile_offsets(trace, ATOM_BYTES)
        read = {name for product in trace.products for name in product.buffers}
        self._fenced = fenced_arrivals(trace.body, read)
        self._fenced_waits = fenced_waits(trace, read)
        self._before = reused_sums(trace)
        self._fences = any(_written(s) in read for s in trace.statements())

    def _launch_attributes(self) -> dict[str, Attribute]:
        waits = any(isinstance(s, If) and isinstance(s.mark, Dependent) for s in self.trace.statements())
        more = {DEPENDENT_ATTRIBUTE: self.ir.BoolAttr.get(True)} if waits else {}
        return super()._launch_attributes() | more

    # -- shared memory

    def _views(self, types: list[str], location: Location) -> dict[str, MlirValue]:
        return emit_views(Builder(), self.trace, types, location, ATOM_BYTES)

    # -- statements

    def _emit(self, statement: Statement) -> None:
        if id(statement) in self._packs.skipped or (isinstance(statement, If) and self._emit_marked(statement)):
            return
        if id(statement) in self._packs.written and isinstance(statement, Write):
            first = self._first.get(statement.register, statement.register)
            self._registers[first] = self._packed(self._packs.written[id(statement)], first.dtype.mlir)
            return
        product = next((self._products[n] for n in numbers_of(statement) if n in self._products), None)
        if product is not None:
            if id(product) not in self._issued:
                self._issued.add(id(product))
                self._issue(product)
            return
        if self._carry(statement):
            return
        if self._flying and self._needs_all(statement):
            self._land(len(self._flying))
        elif self._flying and _is_previous(statement):
            self._land(len(self._flying) - 1)
        match statement:
            case Constant(result, number) if number == 0:
                self._zeros.add(result.number)
            case Convert(result, operand) if str(operand.dtype) == "f32" and (
                result.dtype.bits == 16 or result.dtype.is_f8
            ):
                self._wide[result.number] = operand.number
            case Barrier() if self._fences:
                self._fence()
            case MlirOperation() if id(statement) in self._fenced:
                self._fence()
            case _:
                pass
        super()._emit(statement)
        if id(statement) in self._fenced_waits:
            self._fence()

    def _emit_marked(self, statement: If) -> bool:
        """Emit what a statement's mark says; False for one without a mark that says it."""
        match statement.mark:
            case Dependent(action):
                kind = f"#nvvm<grid_dep_action {action}>"
                self.printer.build.operation("nvvm.griddepcontrol", (), (), {"kind": kind})
            case Meeting() as meeting:
                emit_meeting(self.printer.build, self.trace, meeting, self._warp())
            case MatrixStores() as stores:
                self._store_matrices(stores)
            case (RingMade() | RingPass()) as mark if mark.together:
                body = _for_itself(statement.then, mark) if mark.mutual else statement.then
                several = isinstance(mark, RingPass) and mark.blocks > 1 and not mark.mutual
                body = self._at_blocks(body, mark.blocks) if several else [self._by_group(s) for s in body]
                super()._emit_body(body)
            case RingCopy() as given:
                super()._emit_body([
                    replace(s, mark=replace(s.mark, mutual=given.mutual, rounded=given.rounded, begin=given.begin,
                                            since=given.since))
                    if isinstance(s, If) and isinstance(s.mark, TileCopy) else s
                    for s in statement.then
                ])  # fmt: skip
            case _ if is_word(statement):
                super()._emit_body(statement.then)  # a word is what its statements are
            case _:
                return False
        return True

    def _at_blocks(self, body: Sequence[Statement], blocks: int) -> list[Statement]:
        """The arrivals of a group at the barriers of all blocks: each of its first threads at that of one block."""
        end = next(n for n, s in enumerate(body) if isinstance(s, If)) + 1
        peer = next(s for s in body[:end] if isinstance(s, MlirOperation) and s.name == CAST)
        thread = FloorMod(self._along_x, WARPGROUP * WARP)
        return [
            replace(s, expr=thread) if isinstance(s, FromIndex) and s.result.number == peer.operands[1].number
            else replace(s, condition=Lt(thread, blocks)) if isinstance(s, If)
            else s for s in body[:end]
        ]  # fmt: skip

    @cached_property
    def _along_x(self) -> Symbol:
        """The number of the thread along x."""
        return next(s for s, kind in self.trace.ids.items() if kind == ("thread_id", "x"))

    def _by_group(self, statement: Statement) -> Statement:
        """Arrivals of each warp as one of its group of 4, and as many expected."""
        if not isinstance(statement, If):
            return statement
        inside = statement.then
        expected = {s.operands[1].number for s in inside if isinstance(s, MlirOperation) and s.name == INIT}
        if not expected:
            return replace(statement, condition=Lt(FloorMod(self._along_x, WARPGROUP * WARP), 1))
        fewer = (
            replace(s, expr=sympy.sympify(s.expr) / WARPGROUP)
            if isinstance(s, FromIndex) and s.result.number in expected
            else s
            for s in inside
        )
        return replace(statement, then=tuple(fewer))

    def _fence(self) -> None:
        """What this thread stored is visible to the unit after the next barrier or arrival."""
        space = {"kind": "#nvvm.proxy_kind<async.shared>", "space": "#nvvm.shared_space<cta>"}
        self.printer.build.operation("nvvm.fence.proxy", (), (), space)

    def _needs_all(self, statement: Statement) -> bool:
        """Whether a statement needs all products in flight to be complete."""
        if isinstance(statement, For | While | Return):
            return True
        if isinstance(statement, If | FunctionCall):
            return any(self._needs_all(s) or self._uses(s) or numbers_of(s) & self._products.keys()
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
        return "i32" if register in self._packs.words else super()._register_type(register)

    def _condition_of(self, branch: If) -> MlirValue:
        """Of a role by the number of the warp, so that what it computes is known to be the same for all lanes."""
        if not isinstance(branch.mark, WarpRole):
            return super()._condition_of(branch)
        build, warp = self.printer.build, self._warp()
        first, end = (build.constant(n, "i32") for n in (branch.mark.first, branch.mark.end))
        from_first = build.value("arith.cmpi", (warp, first), "i1", {"predicate": "9 : i64"})
        to_end = build.value("arith.cmpi", (warp, end), "i1", {"predicate": "6 : i64"})
        return build.value("arith.andi", (from_first, to_end), "i1")

    def _carry(self, statement: Statement) -> bool:
        """Whether a register is written or read whose value is in flight: it keeps the value as it is."""
        match statement:
            case Write(register, value):
                self._held.pop(register, None)
                sums = self._accumulating[-1] if self._accumulating else []
                kept = any(register in registers for _, registers in sums)
                found = self._flight_of(value.number) if kept else None
                if found is not None:
                    self._held[register], self._registers[register] = value.number, found.pending[value.number]
                return found is not None
            case Read(result, register) if register in self._held:
                found, number = self._flight_of(self._held[register]), self._held[register]
                if found is not None:
                    found.pending[result.number] = found.pending[number]
                    found.numbers.add(result.number)
                    return True
        return False

    def _flight_of(self, number: int) -> InFlight | None:
        return next((f for f in self._flying if number in f.pending), None)

    def _emit_for(self, loop: For) -> None:
        """A loop whose sums go through products in each iteration keeps these products in flight."""
        self._accumulating.append(carried_sums(loop, self._products))
        super()._emit_for(loop)
        for product, registers in self._accumulating.pop():
            self._fly_on(product, product.results, registers)

    def _fly_on(self, product: WarpgroupProduct, lines: Sequence[Sequence[int]], registers: Sequence[Register]) -> None:
        """A product of another iteration is in flight, whose values these registers hold."""
        flight, numbers = InFlight(product, []), [n for line in lines for n in line]
        flight.numbers = set(numbers)
        flight.pending = {n: self._registers[r] for n, r in zip(numbers, registers, strict=True)}
        self._held.update(zip(registers, numbers, strict=True))
        self._flying.append(flight)

    def _emit_body(self, body: Sequence[Statement]) -> None:
        before, sums = len(self._flying), self._accumulating[-1] if self._accumulating else []
        if not any(numbers_of(s) & product.covered for product, _ in sums for s in flat(body)):
            super()._emit_body(body)
            if len(self._flying) > before:  # those that were issued in this region
                self._land(len(self._flying))
            return
        for product, registers in sums:
            self._fly_on(product, product.accumulators, registers)
        super()._emit_body(body)
        self._land(len(self._flying) - len(sums))
        del self._flying[-len(sums) :]  # they go on in the next iteration
        for register in (r for _, registers in sums for r in registers):
            self._held.pop(register, None)

    # -- products

    def _issue(self, product: WarpgroupProduct) -> None:
        """The instructions of a product as one group, in one piece of assembly for each 64 rows."""
        build = self.printer.build
        right = self._start(product.b, 0)
        structs, read = [], []
        taken = {n for line in product.accumulators for n in line}
        continued = next((f for f in self._flying if taken <= f.pending.keys()), None)
        values = self._values if continued is None else continued.pending
        part = self._before.get(id(product))
        if part is not None and not all(n in self._values for line in part.product.results for n in line):
            part = None  # it is in flight
        if part is not None and part.written:
            self._compute_here(part.written)
        for row, accumulators in enumerate(product.accumulators):
            zero = all(n in self._zeros for n in accumulators)
            sums = [] if zero else [values[n] for n in accumulators]
            if part is not None:
                sums = [self._values[n] for n in part.product.results[row]]
            if isinstance(product.a, SharedMatrix):
                left = [self._start(product.a, row)]
            else:
                left = [self._packed(pair, product.dtype.mlir) for step in product.a[row]
                        for pair in in_words(step, product.dtype.bits)]  # fmt: skip
                read += left
            words = [self._metadata(word) for word in product.metadata[row]] if product.metadata else []
            last = row + 1 == len(product.accumulators)
            text = assembly(product, row, zero=zero, given=len(sums), last=last)
            count, kind = len(accumulators), sum_type(product)
            outs = f"={CONSTRAINTS[kind]}" if sums else f"=&{CONSTRAINTS[kind]}"
            constraints = [outs] * count + [str(i) for i in range(len(sums))] + ["r"] * (len(left) + 1 + len(words))
            struct = f"!llvm.struct<({', '.join([kind] * count)})>"
            structs.append(
                build.value("llvm.inline_asm", [*sums, *left, right, *words], struct, with_operands(text, constraints))
            )
        if continued is not None:
            continued.continued = True
        flight = InFlight(product, read)
        for numbers, struct in zip(product.results, structs, strict=True):
            for i, n in enumerate(numbers):
                flight.pending[n] = build.value("llvm.extractvalue", (struct,), kind, {"position": f"array<i64: {i}>"})
        self._flying.append(flight)

    def _compute_here(self, registers: Sequence[Register]) -> None:
        """Values of f32 registers are computed before what comes next: an assembly of no instruction takes them."""
        held = [self._registers[register] for register in registers]
        kept = self._through_assembly("", held, [])
        self._registers.update(zip(registers, kept, strict=True))

    def _through_assembly(self, text: str, values: Sequence[MlirValue], read: Sequence[MlirValue]) -> list[MlirValue]:
        """The values after a text that has them in their registers, and reads others."""
        build, types = self.printer.build, [str(value.type) for value in values]
        constraints = [*(f"={CONSTRAINTS[t]}" for t in types), *map(str, range(len(values))), *["r"] * len(read)]
        struct = f"!llvm.struct<({', '.join(types)})>"
        made = build.value("llvm.inline_asm", [*values, *read], struct, with_operands(text, constraints))
        places = ({"position": f"array<i64: {i}>"} for i in range(len(values)))
        return [build.value("llvm.extractvalue", (made,), t, at) for t, at in zip(types, places, strict=True)]

    def _metadata(self, word: tuple[int, int, int]) -> MlirValue:
        """The word of a thread's two rows."""
        build = self.printer.build
        both = build.value("vector.from_elements", [self._values[n] for n in word[:2]], "vector<2xi16>")
        return build.value("llvm.bitcast", (both,), "i32")

    def _start(self, matrix: SharedMatrix, row: int) -> MlirValue:
        """The low word of the descriptor of an operand's first instruction, for this thread's warpgroup.

        It is the same for the lanes of a warp, and broadcast, so that descriptors stay in uniform registers; once in a
        region.
        """
        name = f"start {matrix.position} {matrix.buffer.name} {matrix.group_step} {matrix.descriptor}"
        return self.printer.remember(name, "i32", lambda _: self._broadcast(self._start_now(matrix)))

    def _start_now(self, matrix: SharedMatrix) -> MlirValue:
        """The word of the tile's first element, which is the same in every iteration, and the place in the tile.

        The place is a multiple of the widest swizzle, so that it adds to the address field without a mask.
        """
        build = self.printer.build
        base = build.value(
            "arith.addi", (self._root(), build.constant(self._offsets[matrix.buffer.name], "i32")), "i32"
        )
        if matrix.group_step:
            group = build.value("arith.shrui", (self._warp(), build.constant(2, "i32")), "i32")
            step = build.value("arith.muli", (group, build.constant(matrix.group_step, "i32")), "i32")
            base = build.value("arith.addi", (base, step), "i32")
        masked = build.value("arith.andi", (base, build.constant(ADDRESS_MASK, "i32")), "i32")
        chunk = build.value("arith.shrui", (masked, build.constant(CHUNK_SHIFT, "i32")), "i32")
        word = build.value("arith.ori", (chunk, build.constant(matrix.descriptor.word & LOW_WORD, "i32")), "i32")
        position = build.cast_integer(self.printer.value(self._by_warp(matrix.position), "index"), "i32")
        place = build.value("arith.muli", (position, build.constant(matrix.buffer.dtype.bytes, "i32")), "i32")
        place = build.value("arith.shrui", (place, build.constant(CHUNK_SHIFT, "i32")), "i32")
        return build.value("arith.addi", (word, place), "i32")

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
            thread = self._thread()
            return self._broadcast(build.value("arith.shrui", (thread, build.constant(5, "i32")), "i32"))

        return self.printer.remember("warp", "i32", make)

    def _thread(self) -> MlirValue:
        """The number of the thread in its block, x fastest."""
        build, sizes = self.printer.build, self.trace.block
        ids = [build.value(f"nvvm.read.ptx.sreg.tid.{axis}", (), "i32") for axis in "xyz"[: len(sizes)]]
        thread = ids[-1]
        for own, size in zip(reversed(ids[:-1]), reversed(sizes[:-1]), strict=True):
            thread = build.value("arith.muli", (thread, build.constant(int(size), "i32")), "i32")
            thread = build.value("arith.addi", (thread, own), "i32")
        return thread

    def _emit_copy(self, branch: If, copy: TileCopy) -> None:
        """A tile copy whose warp is known to be the same for all lanes: one of them hands it to the unit."""
        if copy.warp.free_symbols == {self._along_x}:
            copy = replace(copy, warp=self._by_warp(copy.warp))
        super()._emit_copy(branch, copy)

    def _by_warp(self, expr: Expr) -> Expr:
        """An index that is the same for the lanes of a warp, by the warp's number, which is one register for all."""
        if len(self.trace.block) > 1 or self._along_x not in sympy.sympify(expr).free_symbols:
            return expr
        symbol = sympy.Symbol("warp_of_lanes", integer=True)
        self.printer.bind(symbol, self._warp(), Range(0, self.trace.block[0] // WARP))
        return simplify(expr.xreplace({self._along_x: WARP * symbol}), self.printer.ranges).expr

    def _broadcast(self, value: MlirValue) -> MlirValue:
        """The value of lane 0, which all lanes have, as a value that is known to be the same for them."""
        build = self.printer.build
        operands = (build.constant(-1, "i32"), value, build.constant(0, "i32"), build.constant(31, "i32"))
        return build.value("nvvm.shfl.sync", operands, "i32", {"kind": "#nvvm<shfl_kind idx>"})

    def _packed(self, word: tuple[int, ...], dtype: str) -> MlirValue:
        """The elements of the left operand that are one word; where they were rounded from f32, by pairs."""
        build = self.printer.build
        if self._packs.first_of(word[0]) is not None:
            return self._values[word[0]]
        if not all(n in self._wide for n in word):
            both = build.value("vector.from_elements", [self._values[n] for n in word], f"vector<{len(word)}x{dtype}>")
            both = build.value("arith.bitcast", (both,), "vector<4xi8>") if len(word) == BYTES else both
            return build.value("llvm.bitcast", (both,), "i32")
        wide = [self._values[self._wide[n]] for n in word]
        rounding = {"rnd": "#nvvm.fp_rnd_mode<rn>"}
        if len(word) == BYTES:
            rounding |= {"sat": "#nvvm.sat_mode<satfinite>", "dstTy": dtype}
            pairs = [build.value("nvvm.convert.f32x2.to.f8x2", wide[n : n + 2][::-1], "i16", rounding) for n in (0, 2)]
            both = build.value("vector.from_elements", pairs, "vector<2xi16>")
        else:
            both = build.value(f"nvvm.convert.f32x2.to.{dtype}x2", wide[::-1], f"vector<2x{dtype}>", rounding)
        return build.value("llvm.bitcast", (both,), "i32")

    def _store_matrices(self, mark: MatrixStores) -> None:
        """`stmatrix`, at the address of a row for each lane."""
        if any(mark.buffer.name in f.product.buffers for f in self._flying):
            self._land(len(self._flying))
        build = self.printer.build
        facts = {
            "layout": f"#nvvm.mma_layout<{'col' if mark.transposed else 'row'}>",
            "shape": "#nvvm.ld_st_matrix_shape<m = 8, n = 8>",
            "eltType": "#nvvm.ld_st_matrix_elt_type<b16>",
        }
        base = build.value("arith.addi", (self._root(), build.constant(self._offsets[mark.buffer.name], "i32")), "i32")
        for position, words in mark.each:
            place = build.cast_integer(self.printer.value(position, "index"), "i32")
            moved = build.value("arith.muli", (place, build.constant(mark.buffer.dtype.bytes, "i32")), "i32")
            address = build.value("llvm.inttoptr", (build.value("arith.addi", (base, moved), "i32"),), "!llvm.ptr<3>")
            held = [self._packed((word[0], word[1]), mark.dtype.mlir) for word in words]
            build.operation("nvvm.stmatrix", (address, *held), (), facts)

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
        numbers = [n for flying in landed if not flying.continued for n in flying.pending]
        pending = [flying.pending[n] for flying in landed if not flying.continued for n in flying.pending]
        left = [value for flying in landed for value in flying.left]
        text = f"wgmma.wait_group.sync.aligned {len(self._flying)};"
        unique = list(dict.fromkeys(pending))
        if not unique:
            build.operation("llvm.inline_asm", left, (), with_operands(text, ["r"] * len(left) + ["~{memory}"]))
            return
        landed_as = dict(zip(unique, self._through_assembly(text, unique, left), strict=True))
        for n, value in zip(numbers, pending, strict=True):
            self._values[n] = landed_as[value]
        for register, n in list(self._held.items()):
            if n in set(numbers):
                self._registers[register] = self._values[n]
                del self._held[register]


def _for_itself(body: Sequence[Statement], mark: RingMade | RingPass) -> Sequence[Statement]:
    """An arrival, or the creation of a ring, of a block that arrives at its own barriers alone.

    The arrival of another block says that its copies are issued. Their bytes say so as well.
    """
    first = next(n for n, s in enumerate(body) if isinstance(s, If))
    branch = body[first]
    assert isinstance(branch, If)
    if isinstance(mark, RingPass):
        own = [
            s if not isinstance(s, MlirOperation) or s.name != ARRIVE
            else replace(s, operands=(mark.ring, *s.operands[1:]))
            for s in branch.then
        ]  # fmt: skip
        return [*body[:first], replace(branch, then=tuple(own))]
    expected = {s.operands[1].number for s in branch.then if isinstance(s, MlirOperation) and s.name == INIT}
    fewer = (
        replace(s, expr=sympy.sympify(s.expr) / mark.blocks)
        if isinstance(s, FromIndex) and s.result.number in expected
        else s
        for s in branch.then
    )
    return [*body[:first], replace(branch, then=tuple(fewer)), *body[first + 1 :]]


def _is_previous(statement: Statement) -> bool:
    """Whether a statement waits for all products but the newest."""
    inside = statements_in((statement,)) if isinstance(statement, If) else (statement,)
    return any(isinstance(s, MlirOperation) and PREVIOUS in s.attributes for s in inside)


def _written(statement: Statement) -> str | None:
    """The name of the shared tile that a statement writes."""
    match statement:
        case Store(access=access) | AsyncCopy(target=access) | Atomic(access=access):
            return access.buffer.name if access.buffer.space == "workgroup" else None
        case TileStore(buffer=buffer):
            return buffer.name
        case _:
            return None
