"""A kernel of an MLIR module as a `KernelTrace`, so that the proofs about traced kernels hold for it as well.

The operations are read in order: index arithmetic as expressions over ids, rounds and sizes (`module_values`), and
accesses as positions in the buffer that a memref is a view of:

    %tile = memref.alloc() : memref<32x33xf32, #gpu.address_space<workgroup>>
    %v = memref.load %tile[%j, %i]                                                     tile[33*j + i]

Loops, branches, barriers, asynchronous copies and their waits become statements. What is not read is unknown, with the
reason: an index from memory or carried by a loop is data; a memref made by another operation leaves the claims about
its buffer unknown, and an operation that may access any memory those about all.
"""

from __future__ import annotations

from lego_mlir.proofs import module_control, module_ids, module_memory
from lego_mlir.proofs.module_kernel import ModuleKernel

# The modules register what they read when they are loaded.
__all__ = ["ModuleKernel", "module_control", "module_ids", "module_memory"]
