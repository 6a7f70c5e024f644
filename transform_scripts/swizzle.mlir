// Runs of 16 bytes of a shared tile change places, so that ldmatrix meets no bank conflict.
//
// Expects  shared tiles of 2-byte elements in a loop, read by ldmatrix and written by 16-byte asynchronous copies. A tile
//          may say by an attribute, lego.order, where its runs lie: a kernel's tile does whose layout is not of straight
//          lines. Another one whose rows are a power of two of runs gets its columns exclusive-ored with its rows; rows
//          that are padded already need no swizzle.
// Leaves   the same accesses at the changed addresses.

module attributes {
  transform.with_named_sequence,
  lego.pipeline = ["lego-shared-to-alloc", @__transform_main, "lego-swizzle", "lego-place-shared-memory"]
} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiles = transform.structured.match ops{["memref.alloc"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %copies = transform.structured.match ops{["nvgpu.device_async_copy"]} in %kernel
      : (!transform.any_op) -> !transform.any_op
    // Every access goes to the tile itself then, not to a memref.subview of it.
    transform.apply_patterns to %kernel {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.yield
  }
}
