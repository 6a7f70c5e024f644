"""Many small matrices at once: one matrix in each lane of a vector.

For matrices of a few elements a vector is longer than a row, and solves and factorisations wait for their own results.
If the batch is the last dimension of the arrays, element e of matrix b lies at `e * batch + b`, so the scalar code of
one matrix, with every number replaced by a vector, works on as many matrices as a register has lanes. What is left
over at the end goes one by one.

>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.parse import parse
>>> text = emit(lower(parse("x = Vector(2); L = LowerTriangular(2); x = L \\\\ x;")), "trsv", "f64", 8)
>>> text.count("vector.load"), text.count("vector.store")
(5, 2)
"""

from __future__ import annotations

from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.structured import generate
from lego_mlir.structured.builder import SSA, Function
from lego_mlir.structured.generate import Variant
from lego_mlir.structured.lower import Lowered

LARGEST: Final = 8


def _unbounded(element: str) -> str:
    """A memref for any batch: only one of a static size is passed as a bare pointer, so it is of a size that none has."""
    return f"memref<{2**40}x{element}>"


class _Lanes(Function):
    """A function whose scalars are vectors over matrices; `first` is the number of the matrix in lane 0."""

    def __init__(self, name: str, element: str, buffers: list[tuple[str, int]], lanes: int, first: SSA) -> None:
        super().__init__(name, element, buffers)
        self.lanes_of_one = lanes
        self.first = first

    def memref(self, buffer: str) -> str:
        if buffer in self.scratch:
            return f"memref<{self.buffers[buffer]}x{self.vector(1)}>"
        return _unbounded(self.element)

    def vector(self, width: int) -> str:
        lanes = width * self.lanes_of_one
        return self.element if lanes == 1 else f"vector<{lanes}x{self.element}>"

    def place(self, at: SSA) -> SSA:
        return self.index_op("addi", self.index_op("muli", at, "%batch"), self.first)

    def load(self, buffer: str, at: SSA) -> SSA:
        if buffer in self.scratch or self.lanes_of_one == 1:
            where = at if buffer in self.scratch else self.place(at)
            return super().load(buffer, where)
        return self.op(f"vector.load %{buffer}[{self.place(at)}] : {self.memref(buffer)}, {self.vector(1)}")

    def store(self, buffer: str, at: SSA, value: SSA) -> None:
        if buffer in self.scratch or self.lanes_of_one == 1:
            super().store(buffer, at if buffer in self.scratch else self.place(at), value)
        else:
            self.do(f"vector.store {value}, %{buffer}[{self.place(at)}] : {self.memref(buffer)}, {self.vector(1)}")


def emit(lowered: Lowered, name: str, element: str, lanes: int) -> str:
    """The module of a kernel over arrays with the batch last. Raises UsageError for matrices that are too large."""
    sizes = [size for leaf in lowered.operands for size in (leaf.structure.rows, leaf.structure.columns)]
    if max(sizes) > LARGEST:
        raise UsageError(
            f"one matrix a lane is for sizes up to {LARGEST}, this program has {max(sizes)}; "
            "put the batch first, where each matrix has vectors of its own"
        )
    buffers = [(leaf.name, leaf.size) for leaf in lowered.operands]
    parts = []
    for suffix, count in (("_lanes", lanes), ("_one", 1)):
        function = _Lanes(name + suffix, element, buffers, count, "%first")
        function.indices = ("batch", "first")
        generate.fill(function, lowered, Variant(1, LARGEST, LARGEST))
        parts.append(function.text())
    arguments = [f"%{buffer}: {_unbounded(element)}" for buffer, _ in buffers]
    given = ", ".join([*(f"%{buffer}" for buffer, _ in buffers), "%batch", "%b"])
    kinds = ", ".join([*([_unbounded(element)] * len(buffers)), "index", "index"])
    return "\n".join([
        *parts,
        f"func.func @{name}({', '.join([*arguments, '%batch: index'])}) {{",
        "  %zero = arith.constant 0 : index",
        "  %one = arith.constant 1 : index",
        f"  %step = arith.constant {lanes} : index",
        "  %rest = arith.remui %batch, %step : index",
        "  %whole = arith.subi %batch, %rest : index",
        "  scf.for %b = %zero to %whole step %step {",
        f"    func.call @{name}_lanes({given}) : ({kinds}) -> ()",
        "  }",
        "  scf.for %b = %whole to %batch step %one {",
        f"    func.call @{name}_one({given}) : ({kinds}) -> ()",
        "  }",
        "  return",
        "}",
    ])  # fmt: skip
