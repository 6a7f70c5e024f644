"""The arrays of a product, each read once: its library, its memory, and how a kernel gets it.

    ArrayOperand     an array with its library and facts; its views and copies are operands again
    MatrixFactor      a matrix as the kernel reads it: in rows or in columns and aligned, copied where the array is not

A matrix in rows or in columns is used where it is. A copy keeps the order that the kernel was chosen for, so that the
same matrix at another address takes the same kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lego_mlir.aliases import AnyArray, Foreign, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, dense_strides, library_of

ALIGNMENT: Final = 16
"""Bytes: the widest access of a kernel."""
ALIGNED: Final = 8
"""Elements of 16 bits in as many bytes."""


@dataclass(frozen=True, slots=True)
class ArrayOperand:
    """An array of a call, by its name there."""

    name: str
    array: Tensor
    library: ArrayLibrary
    facts: ArrayFacts

    def of(self, array: Tensor) -> ArrayOperand:
        """A view or a copy, as an operand."""
        return self if array is self.array else replace(self, array=array, facts=self.library.facts(array))

    def turned(self) -> ArrayOperand:
        """The view with the last two axes swapped."""
        return self.of(self.array.swapaxes(-1, -2))

    @property
    def is_in_rows(self) -> bool:
        """Whether the elements follow each other in row-major order, from an aligned address on."""
        facts = self.facts
        steps = zip(facts.shape, facts.strides, dense_strides(facts.shape), strict=True)
        return facts.pointer % ALIGNMENT == 0 and all(n == 1 or found == step for n, found, step in steps)

    def in_rows(self, padded: Sequence[int] = (), *, copied: bool = False) -> ArrayOperand:
        """The array in rows, with zeros up to multiples of 16 bytes along the axes `padded`; a copy if `copied`."""
        more = [-n % ALIGNED if axis in padded else 0 for axis, n in enumerate(self.facts.shape)]
        if any(more):
            return self.of(_with_zeros(self.array, more, self.library.name))
        return self.of(rows_copied(self.array)) if copied or not self.is_in_rows else self

    def has_one_stride(self, axes: int) -> bool:
        """Whether the first axes are one axis in memory."""
        shape, strides = self.facts.shape, self.facts.strides
        return all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(axes - 1))

    def begins_at(self, view: ArrayOperand) -> bool:
        """Whether a view begins where the array does: a copy does not."""
        return self.facts.pointer == view.facts.pointer


def read(name: str, array: Tensor, what: str = "matmul") -> ArrayOperand:
    """An array on any device. Raises UsageError for what is not an array."""
    library = library_of(array)
    if library is None:
        raise UsageError(f"{what}: {name} is a {type(array).__name__}, which does not speak DLPack; pass a CuPy array")
    return ArrayOperand(name, array, library, library.facts(array))


def in_rows(array: Tensor) -> Tensor:
    """An array in rows from an aligned address on, copied where it is not. Gradients flow through the copy."""
    return read("an operand", array, "lego_mlir").in_rows().array


def require_device(operand: ArrayOperand) -> None:
    """Raise UsageError for an operand in the host's memory."""
    if operand.facts.device[0] != "cuda":
        name, library = operand.name, operand.facts.library
        remedy = f"{name}.cuda()" if operand.library.name == "torch" else f"cupy.asarray({name})"
        raise UsageError(f"matmul: {name}, of {library}, is in the host's memory; move it to the GPU: {remedy}")


def require_alike(first: ArrayOperand, second: ArrayOperand) -> None:
    """Raise UsageError for operands of other types, inner sizes or devices. Shapes may have leading dimensions."""
    if first.facts.shape[-1] != second.facts.shape[-2] or first.facts.dtype != second.facts.dtype:
        shown = [" x ".join(map(str, x.facts.shape)) + f" {x.facts.dtype}" for x in (first, second)]
        raise UsageError(f"matmul of {shown[0]} and {shown[1]}: the inner sizes and the types must agree")
    if first.facts.device != second.facts.device:
        raise UsageError(
            f"matmul: a is on device {first.facts.device[1]} and b on device {second.facts.device[1]}; move one of them"
        )


def rows_copied(array: AnyArray) -> AnyArray:
    """A copy in rows, of an array whose library copies."""
    if hasattr(array, "clone"):
        return array.clone(memory_format=sys.modules["torch"].contiguous_format)
    return array.copy()


def _with_zeros(array: Tensor, more: Sequence[int], library: str) -> Tensor:
    """A copy in rows, with these numbers of zeros after the ends of its axes."""
    if library == "torch":
        import torch

        return torch.nn.functional.pad(array, [n for count in reversed(more) for n in (0, count)])
    module: Foreign = __import__("numpy" if library == "numpy" else "cupy")
    return module.ascontiguousarray(module.pad(array, [(0, count) for count in more]))


def order_of(facts: ArrayFacts) -> str | None:
    """N for a matrix in rows, T for one in columns, None for one that has to be copied."""
    (rows, columns), (down, along) = facts.shape, facts.strides
    if (columns == 1 or along == 1) and (rows == 1 or down == columns):
        return "N"
    return "T" if (rows == 1 or down == 1) and (columns == 1 or along == rows) else None


@dataclass(frozen=True, slots=True)
class MatrixFactor:
    """A matrix as its kernel reads it; `in_place` unless every call copies it."""

    name: str
    order: str
    facts: ArrayFacts
    in_place: bool
    pointer: Callable[[AnyArray], int]

    def usable(self, array: AnyArray) -> AnyArray:
        """The array, or a copy of it in this factor's order. Raises UsageError for a library that does not copy."""
        if self.in_place and self.pointer(array) % ALIGNMENT == 0:
            return array
        if not hasattr(array, "clone") and not hasattr(array, "copy"):
            raise UsageError(
                f"matmul: {self.name}, of {self.facts.library}, is in neither rows nor columns, or not aligned to "
                f"{ALIGNMENT} bytes, or K is not contiguous as units of other than 16 bits need it; pass a copy in "
                f"{'rows' if self.order == 'N' else 'columns'}"
            )
        matrix = array.reshape(self.facts.shape)  # of an array with leading dimensions, all rows
        return rows_copied(matrix) if self.order == "N" else rows_copied(matrix.T).T


def factor_of(operand: ArrayOperand, wanted: str = "") -> MatrixFactor:
    """A matrix in the order that is `wanted`, if any, else in its own, or in rows."""
    facts, own = operand.facts, order_of(operand.facts)
    in_place = own is not None and (not wanted or own == wanted or 1 in facts.shape)
    order = (own if in_place else wanted) or "N"
    rows, columns = facts.shape
    strides = facts.strides if in_place else (columns, 1) if order == "N" else (1, rows)
    held = replace(facts, strides=strides, needs_gradient=False)
    return MatrixFactor(operand.name, order, held, in_place, operand.library.pointer)
