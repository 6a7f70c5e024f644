// The columns of a shared tile are exclusive-ored with its rows, so that ldmatrix meets no bank conflict.
//
// Expects  shared tiles with rows of up to 128 elements of 2 bytes in a loop, read by ldmatrix and written by 16-byte
//          asynchronous copies. Rows that are padded already need no swizzle.
// Leaves   the same accesses, their column changed by the row. No element leaves its row, no space is used.

module attributes {
  transform.with_named_sequence,
  lego.pipeline = ["lego-shared-to-alloc", @__transform_main, "lego-place-shared-memory"]
} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiles = transform.structured.match ops{["memref.alloc"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %copies = transform.structured.match ops{["nvgpu.device_async_copy"]} in %kernel
      : (!transform.any_op) -> !transform.any_op
    // The pass skips a tile of which a memref.subview is left.
    transform.apply_patterns to %kernel {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %swizzled = transform.apply_registered_pass "nvgpu-optimize-shared-memory" to %kernel
      : (!transform.any_op) -> !transform.any_op
    %turned = transform.structured.match ops{["arith.xori"]} in %swizzled : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
