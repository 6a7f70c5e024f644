// Each block of a cluster prints its place.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @place() kernel {
      %cx = gpu.cluster_id x
      %bx = gpu.cluster_block_id x
      %by = gpu.cluster_block_id y
      %nx = gpu.cluster_dim_blocks x
      gpu.printf "cluster %lld of blocks (%lld, %lld), %lld wide\n", %cx, %bx, %by, %nx : index, index, index, index
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    gpu.launch_func @kernels::@place clusters in (%c2, %c2, %c1) blocks in (%c4, %c2, %c1)
        threads in (%c1, %c1, %c1)
    return
  }
}
