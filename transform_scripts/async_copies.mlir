// Copies from global to shared memory become asynchronous: cp.async, one group and one wait for all of them.
//
// Expects  wide reads of global memory (vector.load, vector.transfer_read of 4, 8 or 16 bytes) whose value is stored in
//          shared memory; under a branch that yields zeros where there is nothing to read, the copy fills with zeros.
// Leaves   nvgpu.device_async_copy, _create_group and _wait in their place. Barriers do not move: a barrier must
//          follow the wait before others read the tile.
// bypass_l1: 16-byte copies go past the L1 cache (cp.async.cg).

module attributes {
  transform.with_named_sequence,
  lego.parameters = {bypass_l1 = {default = true}},
  lego.pipeline = ["lego-masked-reads", @__transform_main]
} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %copying = transform.nvgpu.create_async_groups %kernel {bypass_l1, lego.fill = {bypass_l1 = "bypass_l1"}}
      : (!transform.any_op) -> !transform.any_op
    %copies = transform.structured.match ops{["nvgpu.device_async_copy"]} in %copying
      : (!transform.any_op) -> !transform.any_op
    // Removes the reads whose values are unused.
    transform.apply_patterns to %copying {
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.yield
  }
}
