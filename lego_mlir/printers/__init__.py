"""Printers of index expressions: MLIR operations, and text for CUDA C and Triton."""
