"""Compute a staged product by warpgroups: one copies tiles by tensor maps, the others multiply them (sm_90a).

The kernel's loops are read as a whole (`warpgroups.reading`), which proves what they compute, and replaced by a kernel
that computes the same with the units of the architecture: `cp.async.bulk.tensor` into a ring of stages, mbarriers
between producer and consumers, `wgmma` from shared memory, `stmatrix` and a tensor copy for the result. The tile order
is the kernel's: its computation of a tile's place moves along.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op
from lego_mlir.errors import LayoutError
from lego_mlir.hardware.consumers import consumers_across
from lego_mlir.hardware.limits import RESERVED_SHARED_BYTES
from lego_mlir.hardware.stage_rings import BUFFERS
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import RANGE_ATTRIBUTE, input_types, kernels
from lego_mlir.transforms.modules import parse, string_attribute
from lego_mlir.transforms.passes.base import Pass, PassError, UnreadError
from lego_mlir.transforms.passes.operations import create
from lego_mlir.transforms.warpgroups.class_reading import is_symbolic, read_class
from lego_mlir.transforms.warpgroups.launch_sizes import LaunchSizes
from lego_mlir.transforms.warpgroups.moved_arithmetic import calls_of, fill_in_counts, rebuilt, remove_declarations
from lego_mlir.transforms.warpgroups.plan import (
    MATRICES,
    MEMORY,
    UNIT_COLUMNS,
    UNITS,
    ProductPlan,
    StagedOperand,
)  # fmt: skip
from lego_mlir.transforms.warpgroups.reading import Box, StagedProduct, read
from lego_mlir.transforms.warpgroups.roles import ORIGIN, WarpgroupKernel
from lego_mlir.transforms.warpgroups.stored_values import LoadNode, over_transpose

RESULTS: Final = ("f16", "bf16", "f32", "i32", "f8E4M3FN", "f8E5M2")


@dataclass(frozen=True, slots=True)
class WarpgroupProducts(Pass):
    """Raises PassError, with the reason, for a kernel that is not a product which warpgroups can compute.

    A kernel for all sizes of a class takes rows of any multiple of 16 bytes, or with `whole_columns` of whole 128
    bytes, which fewer copies move. With `rounded`, copies round f32 to TF32; the units otherwise cut off their last
    bits.
    """

    stages: int = 4
    lockstep: int = 0
    exact: int = 0
    cluster_m: int = 1
    cluster_n: int = 1
    dependent: bool = False
    whole_columns: bool = False
    rounded: bool = False
    cluster_k: int = 1
    transposed: bool = False
    resident: int = 1
    buffers: int = BUFFERS
    early: int = 0
    splits: int = 1

    name = "lego-warpgroup-products"

    def run(self, module: Module, target: Target) -> None:
        if target.compute_capability != (9, 0) or not target.specific:
            raise PassError(f"{self.name}: tensor copies and wgmma are those of sm_90a, not {target.name}; take "
                            "--target sm_90a, or the script matmul_sm80.mlir")  # fmt: skip
        found = list(kernels(module))
        if not found:
            raise self.no_match("a kernel", module)
        for function in found:
            self._replace(function, target)

    def _replace(self, function: Op, target: Target) -> None:
        name = string_attribute(function, "sym_name")
        try:
            symbolic = read_class(function, self.whole_columns) if is_symbolic(function) else None
            product = read(function) if symbolic is None else symbolic.product
            operands = operands_of(function)
            form = ProductForm(
                (self.cluster_m, self.cluster_n),
                self.cluster_k,
                self.transposed,
                self.resident,
                self.buffers,
                self.early,
                self.splits,
            )
            sizes = (
                None
                if symbolic is None
                else LaunchSizes(*symbolic.sizes, min(symbolic.sizes), declared_ranges(function))
            )
            plan = plan_of(
                name, product, self.stages, self.lockstep, form, self.dependent, operands, sizes, self.exact,
                self.rounded,
            )  # fmt: skip
            text = WarpgroupKernel(plan).build()
        except (PassError, LayoutError) as error:
            raise PassError(f"{self.name}: @{name}: {error}") from error
        if plan.shared_bytes > target.shared_per_block:
            raise PassError(
                f"{self.name}: @{name}: {self.stages} stages of {plan.stage_bytes} bytes, and buffers for C, take "
                f"{plan.shared_bytes} bytes of shared memory, and a block may have {target.shared_per_block}; take "
                f"at most {plan.most_stages} stages" + ", or fewer buffers" * (self.buffers > BUFFERS)
            )
        if (plan.shared_bytes + RESERVED_SHARED_BYTES) * self.resident > target.shared_per_sm:
            raise PassError(
                f"{self.name}: @{name}: {self.resident} blocks of {plan.shared_bytes} bytes of shared memory, and "
                f"{RESERVED_SHARED_BYTES} more each, on a multiprocessor with {target.shared_per_sm}; take fewer stages"
            )
        made = parse(f"module {{ gpu.module @made {{\n{text}\n}} }}", self.name)
        body = made.body.operations[0].operation.regions[0].blocks[0]
        for operation in list(body.operations):
            if not operation.operation.name.startswith("gpu.module_end"):
                operation.operation.move_before(function)
        if symbolic is None:
            _fill_in_order(function, product, transposed=self.transposed)
        else:
            fill_in_counts(function, symbolic, transposed=self.transposed)
        function.erase()


def declared_ranges(function: Op) -> tuple[str, ...]:
    """The ranges of a kernel's sizes, as text of attributes."""
    ir, name = bindings.load().ir, "arg_attrs"
    if name not in function.attributes:
        return ("",) * MATRICES
    described = list(ir.ArrayAttr(function.attributes[name]))[len(input_types(function)) - MATRICES :]
    return tuple(f" {one}" if RANGE_ATTRIBUTE in one else "" for one in described)


def operands_of(function: Op) -> tuple[str, ...]:
    """The types of a kernel's arguments after its matrices."""
    return tuple(map(str, input_types(function)[MATRICES:]))


@dataclass(frozen=True, slots=True)
class ProductForm:
    """How blocks share a product: the blocks of a cluster along M, N and K; `transposed` multiplies B^T A^T.

    `resident` blocks run on a multiprocessor. Each consumer has that number of `buffers` for C; operands of the first
    `early` ones are loaded before the products. `splits` clusters divide K of a tile.
    """

    cluster: tuple[int, int] = (1, 1)
    parts: int = 1
    transposed: bool = False
    resident: int = 1
    buffers: int = BUFFERS
    early: int = 0
    splits: int = 1


ALONE: Final = ProductForm()


def plan_of(
    name: str,
    product: StagedProduct,
    stages: int,
    lockstep: int = 0,
    form: ProductForm = ALONE,
    dependent: bool = False,
    operands: tuple[str, ...] = (),
    sizes: LaunchSizes | None = None,
    exact: int = 0,
    rounded: bool = False,
) -> ProductPlan:
    """The plan of a product, whose blocks become clusters: each block of one computes a part of the kernel's tile.

    Raises PassError or LayoutError for what the units cannot compute.
    """
    cluster, stored = form.cluster, product.stored
    left, right = (
        _operand(box, contiguous, parts, shares, at_launch=sizes is not None, rounded=rounded)
        for box, contiguous, parts, shares in zip(
            (product.left, product.right), product.contiguous, cluster, cluster[::-1], strict=True
        )
    )
    numbers = product.left.argument, product.right.argument
    if form.transposed:
        twice = product.left.dtype == "i8" or consumers_across(right.tile, left.tile) > 1
        left, right = right, narrowed(left, UNIT_COLUMNS * (2 if twice else 1))
        numbers, cluster, stored = numbers[::-1], cluster[::-1], over_transpose(stored)
        sizes = None if sizes is None else replace(sizes, m=sizes.n, n=sizes.m)
    factor = product.left.dtype
    if factor not in UNITS or product.out.dtype not in RESULTS:
        raise PassError(f"a product of {factor} into {product.out.dtype}: warpgroups compute products of "
                        f"{', '.join(UNITS)} into {', '.join(RESULTS)}")  # fmt: skip
    _require_order(product)
    if product.steps * left.step < left.depth or left.depth != right.depth:
        raise PassError(f"{product.steps} steps of {left.step} do not cover K: {left.depth} and {right.depth}")
    return ProductPlan(
        name, left, right, product.out.dtype, product.positions, product.blocks, stages,
        (*numbers, product.out.argument), lockstep,
        cluster, dependent, UNITS[factor], exact, stored, operands, sizes, form.parts, form.transposed,
        form.resident, form.buffers, form.early, form.splits,
    )  # fmt: skip


def _require_order(product: StagedProduct) -> None:
    """Matrices must be the first arguments, and an epilogue must load from the others."""
    matrices = (product.left.argument, product.right.argument, product.out.argument)
    if sorted(matrices) != list(range(MATRICES)):
        raise UnreadError(f"A, B and C are arguments {', '.join(map(str, matrices))}; they must be the first three")
    for node in product.stored:
        if isinstance(node, LoadNode) and node.argument < MATRICES:
            raise PassError(
                f"the epilogue loads from argument {node.argument}, which warpgroups take as a tensor map; pass the "
                "tensor a second time, as an argument after the matrices"
            )


def _operand(box: Box, contiguous: str, parts: int, shares: int, *, at_launch: bool, rounded: bool) -> StagedOperand:
    """A's or B's tile of one block: a part of the box, needed by several blocks."""
    height, width = box.shape
    if contiguous != "k":
        height, width = width, height
    if height % parts:
        raise PassError(f"a tile of {height} rows or columns of C cannot be divided among {parts} blocks")
    rows, depth = (box.lines, box.pitch) if contiguous == "k" else (box.pitch, box.lines)
    return StagedOperand(
        MEMORY.get(box.dtype, box.dtype), rows, depth, height // parts, width, contiguous, shares, at_launch, rounded
    )


def narrowed(operand: StagedOperand, unit: int) -> StagedOperand:
    """The tile of all rows of a matrix that has fewer than the kernel's tile, in whole units."""
    rows = -(-operand.rows // unit) * unit
    return operand if operand.at_launch or operand.shares > 1 or rows >= operand.tile else replace(operand, tile=rows)


def _fill_in_order(function: Op, product: StagedProduct, *, transposed: bool = False) -> None:
    """Replace each call for a tile's place by the old kernel's computation of it, and remove the declaration."""
    ir = bindings.load().ir
    for call in calls_of(function, ORIGIN):
        with call.location, ir.InsertionPoint(call):
            zero = create("arith.constant", [ir.IndexType.get()], attributes={"value": "0 : index"}).results[0]
            for number, (box, contiguous) in enumerate(
                zip((product.left, product.right), product.contiguous, strict=True)
            ):
                known = {} if product.position is None else {product.position: call.operands[0]}
                origin = rebuilt(box.at, known, zero)
                place = f"(d0 - {box.shift})" + (f" floordiv {box.pitch}" if contiguous == "k" else "")
                line = create(
                    "affine.apply", [ir.IndexType.get()], [origin],
                    {"map": ir.Attribute.parse(f"affine_map<(d0) -> ({place})>")},
                ).results[0]  # fmt: skip
                call.results[1 - number if transposed else number].replace_all_uses_with(line)
        call.erase()
    remove_declarations(function, ORIGIN)
