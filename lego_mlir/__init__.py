"""lego_mlir."""
