"""Index expressions printed for a target: operations of MLIR here, text of other languages beside it."""
