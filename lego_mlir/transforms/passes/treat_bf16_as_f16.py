"""Distribute bf16 tiles to the lanes of a warp as if they were f16.

Fragments of both types have the same layout, 16 bits an element, and upstream distributes f16 only. The tiles that feed
products are therefore read through a cast of their memory to f16, and become bf16 again once each lane has its
fragments:

    lego-bf16-as-f16    read %tile : bf16       ->  read (cast %tile : memref of f16)
    lego-bf16-again     ldmatrix (cast %tile)   ->  ldmatrix %tile, and bf16 from there to the product

A kernel without bf16 is left unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Type, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.operations import users
from lego_mlir.transforms.passes.round_at_store import CAST

_READ: Final = "vector.transfer_read"
_PASSED_ON: Final = ("vector.extract_strided_slice",)
_SHAPE: Final = [16, 16]


@dataclass(frozen=True, slots=True)
class TreatBf16AsF16(Pass):
    """Before the conversion: read bf16 tiles as f16."""

    name = "lego-bf16-as-f16"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            _require_distributable(function)
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


def _require_distributable(function: Op) -> None:
    """Raise PassError for products of other types in the shape of 16-bit ones, which no lane's fragment has."""
    for product in [op for op in walk(function) if op.name == "vector.contract"]:
        left = product.operands[0].type
        if str(left.element_type) not in ("f16", "bf16") and list(left.shape) == _SHAPE:
            raise PassError(
                f"{product.location}: a product of {left.element_type}: mma.sync here multiplies f16 and bf16; the "
                "warpgroups of sm_90a multiply other types: --transform matmul_sm90.mlir --target sm_90a"
            )


def _feeds_product(value: Value) -> bool:
    return any(
        user.name == "vector.contract" or (user.name in _PASSED_ON and _feeds_product(user.results[0]))
        for user in users(value)
    )


@dataclass(frozen=True, slots=True)
class RestoreBf16(Pass):
    """After the conversion: fragments are bf16 again. Raises PassError where a tile was not distributed to lanes."""

    name = "lego-bf16-again"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            for cast in [op for op in walk(function) if op.name == CAST]:
                memory, seen = cast.operands[0], cast.results[0]
                if str(ir.MemRefType(memory.type).element_type) != "bf16" or not _is_half(seen):
                    continue
                for load in users(seen):
                    if load.name != "nvgpu.ldmatrix":
                        raise PassError(
                            f"{self.name}: it looked for nvgpu.ldmatrix, and found {load.name}: the tile was not "
                            "distributed to the lanes (convert-vector-to-gpu)"
                        )
                    load.operands[0] = memory
                    _retype(load.results[0], ir.BF16Type.get())
                cast.erase()


def _is_half(value: Value) -> bool:
    return str(bindings.load().ir.MemRefType(value.type).element_type) == "f16"


def _retype(value: Value, element: Type) -> None:
    """Another element type for a vector, and for what is cut out of it."""
    ir = bindings.load().ir
    value.set_type(ir.VectorType.get(ir.VectorType(value.type).shape, element))
    for user in users(value):
        if user.name in _PASSED_ON:
            _retype(user.results[0], element)
