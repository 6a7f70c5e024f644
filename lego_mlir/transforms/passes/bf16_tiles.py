"""Tiles of bf16, dealt out to the lanes of a warp as if they were f16.

The fragments of both types are alike, 16 bits an element, and upstream deals out f16 only. So the tiles that go into
products are read through a view of their memory as f16, and get their type back when each lane has its fragments:

    lego-bf16-as-f16    read %tile : bf16       ->  read (cast %tile : memref of f16)
    lego-bf16-again     ldmatrix (cast %tile)   ->  ldmatrix %tile, and bf16 from there to the product

A kernel without bf16 is left as it is.
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, PassError
from lego_mlir.transforms.passes.operations import users
from lego_mlir.transforms.passes.round_at_store import CAST

_READ: Final = "vector.transfer_read"
_PASSED_ON: Final = ("vector.extract_strided_slice",)
MMA: Final = "nvgpu.mma.sync"


def defer(module: Any, context: Context) -> None:
    """The first pass, before the products are dealt out."""
    ir = bindings.load().ir
    for function in kernels(module):
        for read in [op for op in walk(function) if op.name == _READ]:
            memory = read.operands[0]
            there = ir.MemRefType(memory.type)
            if str(there.element_type) != "bf16" or not _feeds_product(read.results[0]):
                continue
            half = ir.F16Type.get()
            as_half = ir.MemRefType.get(there.shape, half, there.layout, there.memory_space)
            with read.location, ir.InsertionPoint(read):
                zero = ir.Operation.create(
                    "arith.constant", [half], attributes={"value": ir.FloatAttr.get(half, 0.0)}
                ).results[0]
                seen = ir.Operation.create(CAST, [as_half], [memory]).results[0]
            read.operands[0] = seen
            read.operands[len(read.operands) - 1] = zero
            _retype(read.results[0], half)


def _feeds_product(value: Any) -> bool:
    return any(
        user.name == "vector.contract" or (user.name in _PASSED_ON and _feeds_product(user.results[0]))
        for user in users(value)
    )


def run(module: Any, context: Context) -> None:
    """The second pass, after it. Raises PassError where a tile was not dealt out."""
    ir = bindings.load().ir
    for function in kernels(module):
        for cast in [op for op in walk(function) if op.name == CAST]:
            memory, seen = cast.operands[0], cast.results[0]
            if str(ir.MemRefType(memory.type).element_type) != "bf16" or not _is_half(seen):
                continue
            for load in users(seen):
                if load.name != "nvgpu.ldmatrix":
                    raise PassError(
                        f"lego-bf16-again: it looked for nvgpu.ldmatrix, and found {load.name}: the tile was not "
                        "dealt out to the lanes (convert-vector-to-gpu)"
                    )
                load.operands[0] = memory
                _retype(load.results[0], ir.BF16Type.get())
            cast.erase()


def _is_half(value: Any) -> bool:
    return str(bindings.load().ir.MemRefType(value.type).element_type) == "f16"


def _retype(value: Any, element: Any) -> None:
    """Another element type for a vector, and for what is cut out of it."""
    ir = bindings.load().ir
    value.set_type(ir.VectorType.get(ir.VectorType(value.type).shape, element))
    for user in users(value):
        if user.name in _PASSED_ON:
            _retype(user.results[0], element)
