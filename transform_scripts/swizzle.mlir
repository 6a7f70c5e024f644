// Permutes the 16-byte segments of a shared tile, so that ldmatrix has no bank conflicts.
//
// Expects  shared tiles of 2-byte elements in a loop, read by ldmatrix and written by 16-byte asynchronous copies. The
//          attribute lego.order of a tile gives the order of its segments; kernels set it for layouts other than plain
//          rows. Other tiles whose rows are a power of two of segments long get column xor row; padded rows need no
//          swizzle.
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
    // Afterwards every access uses the tile itself, not a memref.subview of it.
    transform.apply_patterns to %kernel {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.yield
  }
}
