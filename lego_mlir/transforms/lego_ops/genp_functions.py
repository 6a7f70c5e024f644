"""A `lego.genp` as a `GenP`: the two regions become Python functions on ints, arrays and symbols.

The functions are checked as every GenP is, so a pair that is not a bijection is refused with the two indices that
collide. A root in floating point, `fptoui(sqrt(uitofp(x)))`, is read as the integer square root that it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Block, IndexLike, Op
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import isqrt
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.permutations import GenP
from lego_mlir.transforms.index_operations import KIND_OF, SIGNED_CASTS, ZERO_EXTENSIONS
from lego_mlir.transforms.lego_ops.expressions import (
    affine_result,
    compared,
    computed,
    constant_of,
    is_comparison,
    selected,
)
from lego_mlir.transforms.modules import ModuleError, string_attribute

_DYNAMIC: Final = -(2**63)
_AROUND_A_ROOT: Final = ("arith.uitofp", "arith.fptoui")
Step = tuple[Callable[[Sequence[IndexLike]], IndexLike], tuple[int, ...]]


@dataclass(frozen=True)
class _Function:
    """A block as a list of steps on numbered values: its arguments, then the result of each operation."""

    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, arguments: Sequence[IndexLike]) -> tuple[IndexLike, ...]:
        values = list(arguments)
        for step, operands in self.steps:
            values.append(step([values[k] for k in operands]))
        return tuple(values[k] for k in self.results)


def definition(operation: Op) -> tuple[str, Callable[[Sequence[Size]], GenP]]:
    """The symbol of a `lego.genp`, and its permutation for the sizes of a use. Raises ModuleError for other regions."""
    name = string_attribute(operation, "sym_name")
    sizes = [int(n) for n in operation.attributes["sizes"]]
    apply, inverse = (_function(region.blocks[0]) for region in operation.regions)

    def make(given: Sequence[Size]) -> GenP:
        if len(given) != len(sizes) or any(n not in (_DYNAMIC, g) for n, g in zip(sizes, given, strict=True)):
            shown = ["?" if n == _DYNAMIC else n for n in sizes]
            raise LayoutError(f"@{name} permutes the sizes {shown}, got {list(given)}")
        extra = [g for n, g in zip(sizes, given, strict=True) if n == _DYNAMIC]

        def forward(*index: IndexLike) -> IndexLike:
            return apply([*index, *extra])[0]

        text, same = f"GenP({list(given)}, @{name})", (name, apply, inverse)
        return GenP(given, forward, lambda p: inverse([p, *extra]), text=text, identity=same)

    return name, make


def _function(block: Block) -> _Function:
    numbers = {argument: k for k, argument in enumerate(block.arguments)}
    steps: list[Step] = []
    for each in block.operations:
        operation = each.operation
        operands = tuple(numbers[operand] for operand in operation.operands)
        if operation.name == "lego.yield":
            return _Function(tuple(steps), operands)
        steps.append((_step(operation), operands))
        numbers[operation.results[0]] = len(numbers)
    raise ModuleError("lego.genp: a region ends in lego.yield")


def _step(operation: Op) -> Callable[[Sequence[IndexLike]], IndexLike]:
    name = operation.name
    number = constant_of(operation)
    if number is not None:
        return lambda values: number
    if name == "math.sqrt":
        return lambda values: isqrt(values[0])
    if name in SIGNED_CASTS | ZERO_EXTENSIONS or name in _AROUND_A_ROOT:
        return lambda values: values[0]
    if name in KIND_OF:
        return lambda values: computed(name, values)
    if name == "affine.apply":
        return affine_result(operation)
    if is_comparison(operation):
        return compared(operation)
    if name == "arith.select":
        return selected
    raise ModuleError(
        f"{operation.location}: error: {name} in a lego.genp cannot be read as integer arithmetic; use operations of "
        "arith, index and affine on integers"
    )
