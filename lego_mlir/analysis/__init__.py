"""Static analysis of memory accesses: shared memory banks, global memory sectors, and proved repairs."""
