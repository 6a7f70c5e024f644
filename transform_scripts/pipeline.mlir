// Issues the copies of a loop `stages - 1` iterations before the iteration that uses them.
//
// Expects  an scf.for with constant bounds and at least `stages - 1` iterations, in which asynchronous copies fill shared
//          tiles, a wait and a barrier follow, and then the tiles are read.
// Leaves   each tile as a ring of `stages` buffers, the first copies before the loop, and one barrier an iteration; behind
//          a loop inside another one, a wait for the last copies and a barrier.

module attributes {
  transform.with_named_sequence,
  lego.parameters = {stages = {default = 4 : i64, min = 2 : i64, max = 8 : i64}, bypass_l1 = {default = true}},
  lego.pipeline = ["lego-check-pipeline", "lego-fix-trip-counts", "lego-shared-to-alloc", @buffers,
                   "lego-merge-barriers", @__transform_main, "lego-restore-trip-counts", "lego-bypass-l1",
                   "lego-drain-copies", "lego-place-shared-memory"]
} {
  transform.named_sequence @buffers(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %tiles = transform.structured.match ops{["memref.alloc"]} in %kernel
      : (!transform.any_op) -> !transform.op<"memref.alloc">
    // The analysis expects a write of the whole tile; these are copies by many threads.
    %rings = transform.memref.multibuffer %tiles {factor = 4 : i64, skip_analysis, lego.fill = {factor = "stages"}}
      : (!transform.op<"memref.alloc">) -> !transform.any_op
    transform.apply_patterns to %kernel {
      transform.apply_patterns.memref.fold_memref_alias_ops
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_cse to %kernel : !transform.any_op
    transform.yield
  }

  // At most `stages - 1` copy groups may be in flight: with more, a copy overwrites the tile that is being read.
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %waits = transform.structured.match ops{["nvgpu.device_async_wait"]} in %kernel
      : (!transform.any_op) -> !transform.any_op
    %loop = transform.get_parent_op %waits {op_name = "scf.for", deduplicate}
      : (!transform.any_op) -> !transform.any_op
    %ahead = transform.nvgpu.pipeline_shared_memory_copies failures(propagate) %loop
      {depth = 3 : i64, lego.fill = {depth = "stages - 1"}} : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %kernel {
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_cse to %kernel : !transform.any_op
    transform.yield
  }
}
