"""`gpu`: the matrices of a warp, loaded, multiplied and stored as a whole (`wmma` in PTX).

Which lane holds which elements of a matrix is not specified. Here a lane holds n = rows * columns / 32 neighbours in
row-major order, lane 0 the first ones. A matrix is therefore a value with n elements a lane, which branches merge and
loops carry like a vector. Loads and stores are checked for races and bounds, and not counted: their bank conflicts
depend on the unspecified distribution.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.aliases import Type
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import extremes, memory, rounding, shadow, values
from lego_mlir.interp.dialects.gpu import by_warp, from_warp, require_whole_warps
from lego_mlir.interp.dialects.vector import wide
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import MemRef, Touch
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array, DType

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess


@dataclass(frozen=True, slots=True)
class Matrix:
    """The type of a warp's matrix; `is_unsigned` decides how 8-bit integers are widened."""

    rows: int
    columns: int
    dtype: DType
    is_tf32: bool
    is_unsigned: bool

    @property
    def elements(self) -> int:
        """Elements of a lane."""
        return self.rows * self.columns // WARP

    @classmethod
    def of(cls, op: Operation, type_: Type) -> Matrix:
        """Read a `!gpu.mma_matrix<16x8xf16, "AOp">`."""
        found = re.fullmatch(r'!gpu\.mma_matrix<(\d+)x(\d+)x(\w+), "\w+">', str(type_))
        if found is None or int(found[1]) * int(found[2]) % WARP:
            op.fail(f"{type_} is not a matrix whose elements the lanes of a warp share evenly")
        element = found[3]
        dtype = values.ELEMENT_DTYPES.get(re.sub(r"^[su]i(?=\d)", "i", element))
        if dtype is None:
            op.fail(f"no NumPy dtype for the elements of {type_}")
        return cls(int(found[1]), int(found[2]), dtype, element in ("f32", "tf32"), element.startswith("ui"))

    def places(self, m: Machine) -> tuple[Array, Array]:
        """Row and column of each lane's elements, (1, threads, elements)."""
        lane = (m.linear_thread() % WARP)[..., None]
        return divmod(lane * self.elements + np.arange(self.elements, dtype=np.int64), self.columns)

    def gathered(self, m: Machine, value: Array) -> Array:
        """A value as matrices, (blocks, warps, rows, columns)."""
        warps = by_warp(m, value)
        return warps.reshape(*warps.shape[:2], self.rows, self.columns)

    def distributed(self, m: Machine, matrices: Array) -> Array:
        return from_warp(m, matrices.reshape(*matrices.shape[:2], WARP, self.elements))


def _address(m: Machine, op: Operation, access: MemoryAccess, matrix: Matrix, ref: int, indices: list[int]) -> Touch:
    """The elements of memory that the lanes access: rows are `leadDimension` apart, or columns if transposed."""
    row, column = matrix.places(m)
    if op.flag("transpose"):
        row, column = column, row
    window: MemRef = m.values[ref]
    first = [m.values[slot][..., None] for slot in indices]
    lead = op.integer("leadDimension")
    if len(first) >= 2 and window.strides[-2] == lead and window.strides[-1] == 1:
        return memory.address(m, access, window, [*first[:-2], first[-2] + row, first[-1] + column])
    flat = memory.address(m, access, window, [index[..., 0] for index in first]).elem
    whole = replace(window, base=0, offset=0, sizes=(window.buffer.bytes // window.dtype.itemsize,), strides=(1,))
    return memory.address(m, access, whole, [flat[..., None] + row * lead + column])


@implements("gpu.subgroup_mma_load_matrix")
def load_matrix(op: Operation) -> Step:
    op.touches(0, read=True)
    access, result, place = op.access("read"), op.result, op.place
    matrix = Matrix.of(op, op.result_type())
    ref, *indices = op.operands

    def step(m: Machine) -> None:
        require_whole_warps(m, "load of a matrix", place)
        touch = _address(m, op, access, matrix, ref, indices)
        if m.checks:
            shadow.check(m, access, touch)
        m.values[result] = memory.gather(m, touch, m.values[ref].dtype).astype(matrix.dtype)

    return step


@implements("gpu.subgroup_mma_store_matrix")
def store_matrix(op: Operation) -> Step:
    op.touches(1, written=True)
    access, place = op.access("write"), op.place
    matrix = Matrix.of(op, op.operand_type(0))
    value, ref, *indices = op.operands

    def step(m: Machine) -> None:
        require_whole_warps(m, "store of a matrix", place)
        touch = _address(m, op, access, matrix, ref, indices)
        if m.checks:
            shadow.check(m, access, touch)
        memory.scatter(m, touch, np.asarray(m.values[value]).astype(m.values[ref].dtype))

    return step


@implements("gpu.subgroup_mma_constant_matrix")
def constant_matrix(op: Operation) -> Step:
    matrix = Matrix.of(op, op.result_type())
    return op.elementwise(lambda value: np.repeat(value[..., None], matrix.elements, axis=-1))


@implements("gpu.subgroup_mma_compute")
def compute(op: Operation) -> Step:
    """C + A B; products and sums in the accumulator's type, in no specified order."""
    matrices = [Matrix.of(op, op.operand_type(i)) for i in range(3)]
    turned = (op.flag("a_transpose"), op.flag("b_transpose"), False)
    dtype, place = matrices[2].dtype, op.place
    total_dtype = wide(dtype)
    slots, result = op.operands, op.result

    def operand(m: Machine, i: int) -> Array:
        matrix = matrices[i]
        found = matrix.gathered(m, m.values[slots[i]])
        if matrix.is_unsigned:
            found = values.unsigned(np.ascontiguousarray(found))
        if i < 2 and matrix.is_tf32:
            found = rounding.tf32(found)
        return (found.swapaxes(-1, -2) if turned[i] else found).astype(total_dtype)

    def step(m: Machine) -> None:
        require_whole_warps(m, "product of matrices", place)
        total = operand(m, 0) @ operand(m, 1) + operand(m, 2)
        total = rounding.narrow(total, dtype) if values.is_float(dtype) else total.astype(dtype)
        m.values[result] = matrices[2].distributed(m, total)

    return step


ELEMENTWISE: Final[dict[str, Callable[..., Array]]] = {
    "addf": np.add, "mulf": np.multiply, "subf": np.subtract, "divf": np.divide, "negatef": np.negative,
    "maxf": extremes.maxnum, "minf": extremes.minnum,
    "addi": np.add, "muli": np.multiply, "subi": np.subtract, "negates": np.negative,
    "extf": lambda a: a,
}  # fmt: skip


@implements("gpu.subgroup_mma_elementwise")
def elementwise(op: Operation) -> Step:
    kind, matrix = op.keyword("opType"), Matrix.of(op, op.result_type())
    if kind not in ELEMENTWISE:
        op.fail(f"{kind} is not supported; supported: {', '.join(ELEMENTWISE)}")
    function = ELEMENTWISE[kind]

    def rounded(*operands: Array) -> Array:
        if not values.is_float(matrix.dtype):
            return function(*operands)
        return rounding.narrow(function(*[a.astype(wide(matrix.dtype)) for a in operands]), matrix.dtype)

    return op.elementwise(rounded)


@implements("gpu.subgroup_mma_extract_thread_local")
def extract_thread_local(op: Operation) -> Step:
    """One of the lane's own elements, counted from 0."""

    def extracted(given: Array, at: Array) -> Array:
        shape = np.broadcast_shapes(given.shape[:2], at.shape)
        given = np.broadcast_to(given, (*shape, given.shape[2]))
        return np.take_along_axis(given, np.broadcast_to(at, shape)[..., None], axis=2)[..., 0]

    return op.elementwise(extracted)


@implements("gpu.subgroup_mma_insert_thread_local")
def insert_thread_local(op: Operation) -> Step:
    """The matrix with one of the lane's own elements replaced."""

    def inserted(new: Array, given: Array, at: Array) -> Array:
        return np.where(np.arange(given.shape[2]) == at[..., None], new[..., None], given)

    return op.elementwise(inserted)
