// The same for a product whose depth is a single tile: there is no loop, so nothing to pipeline.
//
// Expects  what lego_mlir/kernels/matmul.py emits where K is not longer than the step along K.
// Leaves   cp.async, ldmatrix and mma.sync, in a straight line.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {bypass_l1 = {default = true}},
  lego.pipeline = ["async_copies.mlir", "ldmatrix_mma.mlir", "lego-place-shared-memory"]
} {
}
