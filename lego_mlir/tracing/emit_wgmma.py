"""A traced kernel as MLIR for sm_90a: products of warpgroups as `wgmma`, in place of the `mma.sync` that was traced.

A product is issued, as one group, where the first of its statements was traced. Its registers are waited for in front
of the first statement that uses one, and at the end of the region, so that what was traced in between overlaps:

    scores = lego.mma(q, keys, zeros)           fence, mma_async .., commit_group
    added = lego.mma(p, values, out)            fence, mma_async .., commit_group
    best = scores.max(axis=1)                   wait_group 1: the newer product goes on
    out.set(added)                              wait_group 0

A wait takes the accumulators as operands and gives them back, so that LLVM leaves what uses them behind it. Products
read shared memory until then: a barrier, and a copy into one of their tiles, wait for them too. What was copied or
stored by threads is made visible to the unit by a proxy fence in front of each barrier.

Tiles are in dynamic shared memory, at multiples of the widest swizzle. (PTX ISA, "Asynchronous warpgroup level matrix
instructions", "Async proxy".)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lego_mlir.aliases import Value as MlirValue
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.printers.builder import Builder
from lego_mlir.printers.mlir_names import Form
from lego_mlir.tracing.emit import KernelEmitter
from lego_mlir.tracing.emit_shared import emit_views, tile_offsets
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
    Return,
    Statement,
    Store,
    TileStore,
    While,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.wgmma_products import DEPTH, ROWS, SharedMatrix, WarpgroupProduct

CHUNK_SHIFT: Final = 4
ADDRESS_MASK: Final = 0x3FFFF
"""Shared addresses of a descriptor are of 18 bits, in units of 16 bytes."""
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
    """A product that was issued: its accumulators as one struct for each instruction of 64 rows."""

    product: WarpgroupProduct
    structs: list[MlirValue]
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
        self._wide: dict[int, int] = {}  # of a value that was rounded to 16 bits, the number of the f32
        self._offsets = tile_offsets(trace, ATOM_BYTES)
        read = {name for product in trace.products for name in product.buffers}
        self._fences = any(_written(s) in read for s in trace.statements())

    # -- shared memory

    def _views(self, types: list[str], location: Any) -> dict[str, Any]:
        return emit_views(Builder(), self.trace, types, location, ATOM_BYTES)

    # -- statements

    def _emit(self, statement: Statement) -> None:
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
            return (
                statement.name.startswith(("nvvm.", "llvm.fence", "nvgpu.mbarrier.arrive"))
                and statement.name not in _HARMLESS
            )
        written = _written(statement)
        return isinstance(statement, Barrier) or any(written in f.product.buffers for f in self._flying)

    def _uses(self, statement: Statement) -> bool:
        used = {value.number for value in operands_of(statement)}
        return any(used & f.numbers for f in self._flying)

    def _emit_body(self, body: Sequence[Statement]) -> None:
        before = len(self._flying)
        super()._emit_body(body)
        if len(self._flying) > before:  # those that were issued in this region
            self._land(len(self._flying))

    # -- products

    def _issue(self, product: WarpgroupProduct) -> None:
        """The instructions of a product as one group, in one piece of assembly for each 64 rows."""
        build = self.printer.build
        right = self._descriptor(product.b, 0)
        structs = []
        for row, accumulators in enumerate(product.accumulators):
            zero = all(n in self._zeros for n in accumulators)
            sums = [] if zero else [self._values[n] for n in accumulators]
            if isinstance(product.a, SharedMatrix):
                left = [self._descriptor(product.a, row)]
            else:
                left = [self._packed(pair, product) for step in product.a[row] for pair in _pairs(step)]
            last = row + 1 == len(product.accumulators)
            text = assembly(product, row, zero=zero, last=last)
            outs = "=&f" if zero else "=f"
            count = len(accumulators)
            of_left = "l" if isinstance(product.a, SharedMatrix) else "r"
            constraints = [outs] * count + [str(i) for i in range(len(sums))] + [of_left] * len(left) + ["l"]
            struct = f"!llvm.struct<({', '.join(['f32'] * count)})>"
            structs.append(build.value("llvm.inline_asm", [*sums, *left, right], struct, _asm(text, constraints)))
        self._flying.append(InFlight(product, structs))

    def _descriptor(self, matrix: SharedMatrix, row: int) -> MlirValue:
        """The descriptor of an operand's first instruction, for this thread's warpgroup."""
        build = self.printer.build
        position = build.cast_integer(self.printer.value(matrix.position, "index"), "i64")
        bytes_ = build.value("arith.muli", (position, build.constant(matrix.buffer.dtype.bytes, "i64")), "i64")
        base = build.value(
            "arith.addi", (self._root(), build.constant(self._offsets[matrix.buffer.name], "i64")), "i64"
        )
        address = build.value("arith.addi", (base, bytes_), "i64")
        if matrix.group_step:
            step = build.value("arith.muli", (self._group(), build.constant(matrix.group_step, "i64")), "i64")
            address = build.value("arith.addi", (address, step), "i64")
        masked = build.value("arith.andi", (address, build.constant(ADDRESS_MASK, "i64")), "i64")
        chunk = build.value("arith.shrui", (masked, build.constant(CHUNK_SHIFT, "i64")), "i64")
        return build.value("arith.ori", (chunk, build.constant(_signed(matrix.descriptor.word), "i64")), "i64")

    def _root(self) -> MlirValue:
        """The address of dynamic shared memory."""

        def make(_: object) -> MlirValue:
            build = self.printer.build
            memory = build.value("gpu.dynamic_shared_memory", (), "memref<?xi8, #gpu.address_space<workgroup>>")
            address = build.value("memref.extract_aligned_pointer_as_index", (memory,), "index")
            return build.cast_integer(address, "i64")

        return self.printer.remember("shared root", "i64", make)

    def _group(self) -> MlirValue:
        """The number of the warpgroup, the same register for all lanes of a warp."""

        def make(_: object) -> MlirValue:
            build = self.printer.build
            thread = build.value("nvvm.read.ptx.sreg.tid.x", (), "i32")
            warp = build.value("arith.shrui", (thread, build.constant(7, "i32")), "i32")
            operands = (build.constant(-1, "i32"), warp, build.constant(0, "i32"), build.constant(31, "i32"))
            group = build.value("nvvm.shfl.sync", operands, "i32", {"kind": "#nvvm<shfl_kind idx>"})
            return build.cast_integer(group, "i64")

        return self.printer.remember("warpgroup", "i64", make)

    def _packed(self, pair: tuple[int, int], product: WarpgroupProduct) -> MlirValue:
        """Two elements of the left operand as a word; of two that were rounded from f32, by one conversion."""
        build, dtype = self.printer.build, product.dtype.mlir
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
        constraints = ["=f"] * len(pending) + [str(i) for i in range(len(pending))]
        text = f"wgmma.wait_group.sync.aligned {len(self._flying)};"
        kind = f"!llvm.struct<({', '.join(['f32'] * len(pending))})>"
        made = build.value("llvm.inline_asm", pending, kind, _asm(text, constraints))
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
    lines = ["{", ".reg .pred p;", ".reg .b64 a, b;", "wgmma.fence.sync.aligned;"]
    for step in range(product.steps):
        lines.append(f"add.s64 b, {right}, {product.b.starts[0][step] >> CHUNK_SHIFT};")
        if isinstance(product.a, SharedMatrix):
            lines.append(f"add.s64 a, ${following}, {product.a.starts[row][step] >> CHUNK_SHIFT};")
            left, majors = "a", f"{_transposed(product.a)}, {_transposed(product.b)}"
        else:
            left = f"{{{', '.join(f'${following + 4 * step + i}' for i in range(4))}}}"
            majors = _transposed(product.b)
        lines.append(f"setp.ne.b32 p, {0 if zero and step == 0 else 1}, 0;")
        lines.append(f"wgmma.mma_async.sync.aligned.{kind} {sums}, {left}, b, p, 1, 1, {majors};")
    lines += ["wgmma.commit_group.sync.aligned;"] if last else []
    return "\n".join([*lines, "}"])


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


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


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
