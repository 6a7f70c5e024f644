"""Boxes of the true extent, for matrices of fewer rows than a tile: the rest of the tile is set to zero once.

A copy whose box reaches outside of the matrix writes zeros there, and takes as long as for a whole tile. With a box of
the matrix's rows, the other rows of every stage are never copied. They are multiplied nevertheless: set to zero, their
products are zero, and the store of C leaves them out.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.transforms.warpgroups.module_text import ModuleText
from lego_mlir.transforms.warpgroups.plan import SWIZZLE, ProductPlan

VECTOR: Final = 16
"""Bytes that a thread stores at once."""


def clear(t: ModuleText, plan: ProductPlan, shared: str, thread: str) -> None:
    """Set the rows that no copy fills to zero, with all threads of the block, before the barrier of its beginning."""
    spans = []
    for operand, base in ((plan.a, 0), (plan.b, plan.b_offset)):
        if operand.copied * operand.boxes < operand.part_extent and operand.contiguous == "k":
            first = operand.copied * SWIZZLE
            spans += [
                (base + stage * operand.tile_bytes + first, operand.tile_bytes - first) for stage in range(plan.stages)
            ]
    if not spans:
        return
    zero = t.value("arith.constant dense<0> : vector<4xi32>")
    own = t.op("muli", thread, t.i32(VECTOR))
    for first, size in spans:
        step = plan.threads * VECTOR
        at = t.name()
        with t.block(f"scf.for {at} = {own} to {t.i32(size)} step {t.i32(step)} : i32 {{"):
            address = t.shared(shared, t.op("addi", at, t.i32(first)))
            t.line(f"llvm.store {zero}, {address} {{alignment = {VECTOR} : i64}} : vector<4xi32>, !llvm.ptr<3>")
    t.line("nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}")
