"""What the memory system would see: shared memory banks, global memory sectors, and repairs that are proved."""
