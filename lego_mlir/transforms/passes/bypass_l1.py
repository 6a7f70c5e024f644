"""The mark that lets an asynchronous copy bypass the L1 cache.

A tile staged in shared memory is not read through L1 again, and `cp.async.cg` copies around that cache. Pipelining
rewrites copies as predicated ones and drops the mark that selects it. The instruction copies 16 bytes, so only 16-byte
copies are marked. PTX ISA, "cp.async".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import element_bytes, kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass

COPY: Final = "nvgpu.device_async_copy"
BYPASS: Final = "bypassL1"
BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class BypassL1(Pass):
    """Mark every 16-byte copy; with `bypass_l1` false, remove the marks."""

    name = "lego-bypass-l1"
    bypass_l1: bool = True

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        copies = [op for function in kernels(module) for op in walk(function) if op.name == COPY]
        if not copies:
            raise self.no_match(COPY, module)
        for copy in copies:
            element = ir.MemRefType(copy.operands[0].type).element_type
            size = int(ir.IntegerAttr(copy.attributes["dstElements"]).value) * element_bytes(element)
            if self.bypass_l1 and size == BYTES:
                copy.attributes[BYPASS] = ir.UnitAttr.get()
            elif BYPASS in copy.attributes:
                del copy.attributes[BYPASS]
