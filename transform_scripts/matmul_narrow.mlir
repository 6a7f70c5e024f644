// Turns a matrix product at the vector level into a tensor-core kernel where rows are too narrow for asynchronous copies.
//
// Expects  what lego_mlir/kernels/matmul.py emits for rows of an odd number of 2-byte elements: a loop that loads
//          elements, stores them to shared memory between two barriers, and multiplies.
// Leaves   ldmatrix.x4 and mma.sync m16n8k16, and the loads of an iteration during the products of the one before.

module attributes {
  transform.with_named_sequence,
  lego.pipeline = ["ldmatrix_mma.mlir", "lego-load-tiles-early", "lego-place-shared-memory"]
} {
}
