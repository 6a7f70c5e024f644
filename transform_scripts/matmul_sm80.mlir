// Turns a matrix product at the vector level into a pipelined tensor-core kernel for sm_80 and later.
//
// Expects  what lego_mlir/kernels/matmul.py emits: a loop that copies tiles to shared memory and multiplies them.
//          A kernel of another form is scheduled, as by tiles_sm80.mlir, with `stages`.
// Leaves   cp.async into a ring of swizzled tiles, ldmatrix.x4 and mma.sync m16n8k16; the first fragments of an
//          iteration loaded before the last products of the one before, the copies between the products; shared memory
//          beyond 48 KiB as dynamic.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 8 : i64}, bypass_l1 = {default = true}},
  lego.pipeline = ["async_copies.mlir", "lego-check-pipeline", "ldmatrix_mma.mlir", "pipeline.mlir", "swizzle.mlir",
                   "lego-rotate-fragments", "lego-load-ahead", "lego-spread-copies", "lego-next-tile-ahead",
                   "lego-place-shared-memory"],
  lego.otherwise = ["warps", "pipeline(stages={stages})", "overlay(optional=True)", "ahead"]
} {
}
