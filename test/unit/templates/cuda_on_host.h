// Just enough of CUDA for a rendered kernel to run on the CPU: every thread of a block is a thread, blocks one by one.
#pragma once
#include <math.h>

#include <barrier>
#include <thread>
#include <vector>

struct dim3 {
  int x = 1, y = 1, z = 1;
};
inline thread_local dim3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline std::barrier<> *block_barrier = nullptr;
inline void __syncthreads() { block_barrier->arrive_and_wait(); }
inline void __syncwarp() { block_barrier->arrive_and_wait(); }  // for blocks of one warp

// Every thread of a block takes part, as it does in a kernel whose threads all go the same way.
inline int passed_on[1024];
inline int __shfl_up_sync(unsigned, int value, int distance) {
  passed_on[threadIdx.x] = value;
  __syncthreads();
  const int found = threadIdx.x % 32 >= distance ? passed_on[threadIdx.x - distance] : value;
  __syncthreads();
  return found;
}
inline void copy_word(int *to, const int *from) { *to = *from; }
inline void wait_for_copies() {}

#define __launch_bounds__(threads)
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static

template <class Kernel> void launch(dim3 grid, dim3 block, Kernel kernel) {
  gridDim = grid, blockDim = block;
  std::vector<dim3> ids;
  for (int z = 0; z < block.z; ++z)
    for (int y = 0; y < block.y; ++y)
      for (int x = 0; x < block.x; ++x) ids.push_back({x, y, z});
  std::barrier<> barrier((long)ids.size());
  block_barrier = &barrier;
  // One thread walks all blocks for its own id; the barrier keeps the threads of a block together.
  std::vector<std::thread> threads;
  for (dim3 id : ids)
    threads.emplace_back([=] {
      threadIdx = id;
      for (int z = 0; z < grid.z; ++z)
        for (int y = 0; y < grid.y; ++y)
          for (int x = 0; x < grid.x; ++x) {
            blockIdx = {x, y, z};
            kernel();
            __syncthreads();
          }
    });
  for (auto &thread : threads) thread.join();
}
