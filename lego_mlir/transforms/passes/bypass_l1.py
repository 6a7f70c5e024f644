"""The mark by which an asynchronous copy goes past the first-level cache.

A tile that is staged in shared memory is not read through the L1 cache again; `cp.async.cg` copies past it. Pipelining
rewrites copies as predicated ones and drops the mark that asks for it. The instruction copies 16 bytes, so only copies
of 16 bytes are marked. PTX ISA, "cp.async".
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import element_bytes, kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, nothing

COPY: Final = "nvgpu.device_async_copy"
BYPASS: Final = "bypassL1"
BYTES: Final = 16


def run(module: Any, context: Context) -> None:
    """The pass; with the parameter `bypass_l1` false it takes the marks away."""
    ir = bindings.load().ir
    wanted = bool(context.parameters.get("bypass_l1", True))
    copies = [op for function in kernels(module) for op in walk(function) if op.name == COPY]
    if not copies:
        raise nothing("lego-bypass-l1", COPY, module)
    for copy in copies:
        element = ir.MemRefType(copy.operands[0].type).element_type
        size = int(ir.IntegerAttr(copy.attributes["dstElements"]).value) * element_bytes(element)
        if wanted and size == BYTES:
            copy.attributes[BYPASS] = ir.UnitAttr.get()
        elif BYPASS in copy.attributes:
            del copy.attributes[BYPASS]
