"""MLIR modules in memory: parsing and printing, our passes, and the transform scripts that run them."""
