// Threads of two blocks print numbers of several types.
module attributes {gpu.container_module} {
  gpu.module @kernels {
    gpu.func @greet(%scale: f32) kernel {
      %b = gpu.block_id x
      %t = gpu.thread_id x
      %i = arith.index_cast %t : index to i32
      %x = arith.sitofp %i : i32 to f32
      %y = arith.mulf %x, %scale : f32
      %wide = arith.extf %y : f32 to f64
      gpu.printf "block %lld thread %lld: %5.2f, %d%%\n", %b, %t, %wide, %i : index, index, f64, i32
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %half = arith.constant 0.5 : f32
    gpu.launch_func @kernels::@greet blocks in (%c2, %c1, %c1) threads in (%c2, %c1, %c1) args(%half : f32)
    return
  }
}
