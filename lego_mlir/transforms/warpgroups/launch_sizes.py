"""What depends on the sizes of a product: constants of the kernel, or values that it computes from its arguments.

A kernel for all sizes of a class takes M, N and K behind its tensor maps. It computes at its beginning what the loops
of a fixed kernel have as constants: the number of tiles, by the old kernel's operations, which the pass fills in, and
the steps along K.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.hardware.tensor_map_forms import MapExtent, SizeTerm, TensorMapForm
from lego_mlir.transforms.warpgroups.module_text import ModuleText, operand_name

if TYPE_CHECKING:
    from lego_mlir.transforms.warpgroups.plan import ProductPlan, StagedOperand

TILE_COUNT: Final = "lego_tile_count"
"""A placeholder for the number of tiles, a function without arguments; the pass fills it in."""
_TILES, _STEPS, _LAST, _WHOLE = "%tile_count", "%step_count", "%last_step", "%tiles_of_whole_rounds"


@dataclass(frozen=True, slots=True)
class LaunchSizes:
    """The numbers of the arguments that are M, N and K; `first` is that of the first size.

    `declared` are the ranges of the sizes, as attributes of the arguments, in which indices may be found to fit 32
    bits.
    """

    m: int
    n: int
    k: int
    first: int
    declared: tuple[str, ...] = ()

    def attributes(self, argument: int) -> str:
        """The attributes of an argument, empty for other arguments than sizes."""
        return "" if argument < self.first else self.declared[argument - self.first]

    def term(self, argument: int, times: int = 1, over: int = 1) -> SizeTerm:
        """A multiple or a quotient of a size."""
        return SizeTerm(argument - self.first, times, over)


def declare(t: ModuleText, plan: ProductPlan) -> None:
    """Declare the placeholder."""
    if plan.launch_sizes is not None:
        t.line(f"func.func private @{TILE_COUNT}() -> index")


def define(t: ModuleText, plan: ProductPlan) -> None:
    """Compute the counts, at the beginning of the kernel."""
    if plan.launch_sizes is None:
        return
    t.line(f"{_TILES} = func.call @{TILE_COUNT}() : () -> index")
    depth = t.value(f"arith.index_cast {operand_name(plan.launch_sizes.k)} : index to i32")
    covered = t.op("addi", depth, t.i32(plan.a.step - 1))
    step = t.i32(plan.a.step)
    t.line(f"{_STEPS} = arith.divui {covered}, {step} : i32")
    if plan.lockstep:
        one = t.i32(1)
        t.line(f"{_LAST} = arith.subi {_STEPS}, {one} : i32")
        blocks = t.value(f"arith.constant {plan.blocks} : index")
        rounds = t.op("divui", _TILES, blocks, type_="index")
        t.line(f"{_WHOLE} = arith.muli {rounds}, {blocks} : index")


def tile_count(t: ModuleText, plan: ProductPlan) -> str:
    """The number of tiles, an index."""
    return _TILES if plan.launch_sizes is not None else t.value(f"arith.constant {plan.positions} : index")


def step_count(t: ModuleText, plan: ProductPlan) -> str:
    """The number of steps along K, an i32."""
    return _STEPS if plan.launch_sizes is not None else t.i32(plan.steps)


def last_step(t: ModuleText, plan: ProductPlan) -> str:
    """The number of the last step along K, an i32."""
    return _LAST if plan.launch_sizes is not None else t.i32(plan.steps - 1)


def tiles_of_whole_rounds(t: ModuleText, plan: ProductPlan) -> str:
    """The number of tiles of the rounds in which all blocks have one, an index."""
    return _WHOLE if plan.launch_sizes is not None else t.value(f"arith.constant {plan.together} : index")


def forms_of(plan: ProductPlan, sizes: LaunchSizes) -> tuple[TensorMapForm, TensorMapForm, TensorMapForm]:
    """The forms of the maps of A, B and C, which have the maps of a plan for each M, N and K."""
    c, rows, columns = plan.c_map, sizes.m, sizes.n
    if plan.transposed:
        rows, columns = columns, rows
    stored = TensorMapForm(
        c.dtype, (sizes.term(columns), sizes.term(rows)), (sizes.term(columns, c.element_bytes),), c.box, c.swizzle,
    )  # fmt: skip
    return _form(plan.a, sizes, sizes.m), _form(plan.b, sizes, sizes.n), stored


def _form(operand: StagedOperand, sizes: LaunchSizes, across: int) -> TensorMapForm:
    """The form of an operand's map (`StagedOperand.map`), whose rows are M or N, the argument `across`."""
    inside, size = operand.map, operand.map.element_bytes
    rows, depth = sizes.term(across), sizes.term(sizes.k)
    extents: tuple[MapExtent, ...] = (depth, rows)
    strides: tuple[MapExtent, ...] = (sizes.term(sizes.k, size),)
    if operand.contiguous != "k":
        extents, strides = (rows, depth), (sizes.term(across, size),)
        if operand.together:
            extents = (operand.column, depth, sizes.term(across, over=operand.column))
            strides = (*strides, inside.strides[1])
    return TensorMapForm(inside.dtype, extents, strides, inside.box, inside.swizzle)
