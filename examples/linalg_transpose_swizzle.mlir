// Gives each shared allocation the cheapest layout without bank conflicts.
//
// Expects  kernels with a known block size and shared memory allocated by memref.alloc, accessed by linalg operations on
//          single elements, by memref.load and memref.store, or by vectors of one dimension. The plugin of the lego
//          dialect has to be built: docs/reference/dialect.md.
// Leaves   loads and stores at the changed positions, as arithmetic.

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %linalg = transform.structured.match interface{LinalgOp} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.convert_to_loops %linalg : (!transform.any_op) -> !transform.any_op
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    // Afterwards every access uses the tile itself, not a memref.subview of it.
    transform.apply_patterns to %kernel {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
      transform.apply_patterns.scf.for_loop_canonicalization
    } : !transform.any_op
    %tiles = transform.structured.match ops{["memref.alloc"]} in %kernel : (!transform.any_op) -> !transform.any_op
    %relaid = transform.lego.swizzle %tiles : (!transform.any_op) -> !transform.any_op
    %lowered = transform.apply_registered_pass "lego-lower-to-arith" to %kernel
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
