// Distributes a warp's tiles to its lanes: ldmatrix, mma.sync m16n8k16, and stores of what each lane holds.
//
// Expects  vector.transfer_read of 16x16 tiles from two-dimensional shared memory (straight or transposed),
//          vector.contract (m, k) x (n, k) of f16 or bf16 into 16x8 accumulators of f32, and vector.transfer_write of
//          these; index arithmetic in the affine or the index dialect. Larger contractions of equal shape are cut.
// Leaves   nvgpu.ldmatrix, nvgpu.mma.sync, and vector.store of two neighbours a lane. A result that is rounded before
//          it is written is rounded by the lanes.

module attributes {
  transform.with_named_sequence,
  lego.pipeline = ["lego-defer-rounding", "lego-bf16-as-f16", "lego-hide-scalars", @__transform_main,
                   "lego-restore-scalars", "lego-order-fragments", "lego-bf16-again", "lego-round-at-store",
                   "lego-place-shared-memory"]
} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %kernel = transform.structured.match ops{["gpu.func"]} in %root : (!transform.any_op) -> !transform.any_op
    %products = transform.structured.match ops{["vector.contract"]} in %kernel : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %kernel {
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    %dealt = transform.apply_registered_pass "convert-vector-to-gpu" with options = {"use-nvgpu" = true} to %kernel
      : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %dealt {
      transform.apply_patterns.canonicalization
    } : !transform.any_op
    transform.apply_cse to %dealt : !transform.any_op
    %mma = transform.structured.match ops{["nvgpu.mma.sync"]} in %dealt : (!transform.any_op) -> !transform.any_op
    %loads = transform.structured.match ops{["nvgpu.ldmatrix"]} in %dealt : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
