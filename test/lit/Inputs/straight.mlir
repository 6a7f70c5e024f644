gpu.module @m {
  gpu.func @nothing(%p: memref<128xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    gpu.return
  }
}
