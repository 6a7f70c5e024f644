// Just enough of CUDA for bench/rivals/first_day.cu to run on the CPU. Every thread of a block is a fiber; a barrier,
// of a block or of a warp, switches to the next fiber until all threads that have not returned have arrived.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <utility>
#include <vector>
using std::max, std::min;

#define __global__
#define __device__
#define __restrict__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct Barrier {
  unsigned live = 0, arrived = 0, generation = 0;
  void open_if_complete() {
    if (live && arrived == live) arrived = 0, ++generation;
  }
};
struct Fiber {
  ucontext_t context;
  dim3 id;
  bool returned;
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;
inline std::vector<Fiber> fibers;
inline std::vector<char> stacks;
inline std::vector<Barrier> warp_barriers;
inline Barrier block_barrier;
extern "C" {
int descending = 0;  // the order in which the fibers of a block run: a barrier that is missing shows in one of the two
}
inline unsigned current;
inline ucontext_t scheduler;
inline void (*body)(void*);
inline void* closure;

inline void wait_at(Barrier& barrier) {
  unsigned generation = barrier.generation;
  ++barrier.arrived;
  barrier.open_if_complete();
  while (barrier.generation == generation) swapcontext(&fibers[current].context, &scheduler);
}
inline void __syncthreads() { wait_at(block_barrier); }

inline void run_fiber() {
  body(closure);
  fibers[current].returned = true;
  for (Barrier* barrier : {&block_barrier, &warp_barriers[current / 32]}) {
    --barrier->live;
    barrier->open_if_complete();
  }
}

template <class Kernel>
void run_block(Kernel& kernel) {
  constexpr size_t kStack = 64 << 10;
  unsigned count = blockDim.x * blockDim.y * blockDim.z;
  fibers.resize(count);
  stacks.resize(count * kStack);
  warp_barriers.assign((count + 31) / 32, {});
  block_barrier = {count};
  body = [](void* k) { (*static_cast<Kernel*>(k))(); };
  closure = &kernel;
  for (unsigned t = 0; t < count; ++t) {
    ++warp_barriers[t / 32].live;
    Fiber& fiber = fibers[t];
    fiber.id = dim3(t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y);
    fiber.returned = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = &stacks[t * kStack];
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = &scheduler;
    makecontext(&fiber.context, run_fiber, 0);
  }
  for (bool any = true; any;) {
    any = false;
    for (unsigned turn = 0; turn < count; ++turn) {
      current = descending ? count - 1 - turn : turn;
      if (fibers[current].returned) continue;
      any = true;
      threadIdx = fibers[current].id;
      swapcontext(&scheduler, &fibers[current].context);
    }
  }
}
template <class Kernel>
void run_grid(dim3 grid, dim3 block, Kernel kernel) {
  gridDim = grid, blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) blockIdx = dim3(x, y, z), run_block(kernel);
}

// Shuffles: every thread of the warp takes part.
inline unsigned char passed[1024][8];
template <class T>
T from_lane(T value, unsigned lane) {
  Barrier& barrier = warp_barriers[current / 32];
  memcpy(passed[current], &value, sizeof value);
  wait_at(barrier);
  memcpy(&value, passed[current / 32 * 32 + lane], sizeof value);
  wait_at(barrier);
  return value;
}
template <class T>
T __shfl_sync(unsigned, T value, unsigned lane) {
  return from_lane(value, lane);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, unsigned mask) {
  return from_lane(value, current % 32 ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned n) {
  return from_lane(value, current % 32 < n ? current % 32 : current % 32 - n);
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned n) {
  return from_lane(value, std::min(current % 32 + n, 31u));
}
inline unsigned __ballot_sync(unsigned, bool vote) {
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) votes |= unsigned(from_lane(vote, lane)) << lane;
  return votes;
}
inline bool __all_sync(unsigned mask, bool vote) { return __ballot_sync(mask, vote) == ~0u; }
inline unsigned __reduce_add_sync(unsigned, unsigned value) {
  unsigned total = 0;
  for (unsigned lane = 0; lane < 32; ++lane) total += from_lane(value, lane);
  return total;
}

template <class T, class V>
void atomicAdd(T* target, V value) {
  *target += value;
}
enum { __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE };
template <class T>
T __nv_atomic_load_n(T* source, int, int) {
  return *source;
}
template <class T>
void __nv_atomic_store_n(T* target, T value, int, int) {
  *target = value;
}

struct uint2 {
  uint32_t x, y;
};
struct uint4 {
  uint32_t x, y, z, w;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }

struct __half {
  uint16_t bits;
};
struct __half2 {
  __half x, y;
};
inline float __half2float(__half h) {
  int exponent = h.bits >> 10 & 31, fraction = h.bits & 1023;
  float size = exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24);
  return h.bits >> 15 ? -size : size;
}
inline __half __float2half(double x) {  // to nearest even; finite values only
  int exponent = x == 0 ? -14 : std::max(ilogb(x), -14);
  int bits = int(nearbyint(ldexp(fabs(x), 10 - exponent))) + ((exponent + 14) << 10);
  return {uint16_t(std::min(bits, 0x7c00) | (signbit(x) << 15))};
}
inline __half2 __half2half2(__half h) { return {h, h}; }
inline float2 __half22float2(__half2 h) { return {__half2float(h.x), __half2float(h.y)}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__float2half(x), __float2half(y)}; }
inline __half fused(__half a, __half b, __half c) {  // a b + c is exact in f64 where the exponents are near
  return __float2half(double(__half2float(a)) * __half2float(b) + __half2float(c));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {fused(a.x, b.x, c.x), fused(a.y, b.y, c.y)}; }

// Every lane holds the whole of a fragment.
namespace nvcuda::wmma {
enum Layout { mem_row_major };
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
template <class Use, int M, int N, int K, class T, class Order = void>
struct fragment {
  static constexpr int num_elements = 256;
  T x[256];
};
template <class F>
void fill_fragment(F& f, float value) {
  std::fill_n(f.x, 256, value);
}
template <class F, class T>
void load_matrix_sync(F& f, const T* source, int stride) {
  for (int e = 0; e < 256; ++e) f.x[e] = source[e / 16 * stride + e % 16];
}
template <class F, class T>
void store_matrix_sync(T* target, const F& f, int stride, Layout) {
  for (int e = 0; e < 256; ++e) target[e / 16 * stride + e % 16] = f.x[e];
}
template <class D, class A, class B, class C>
void mma_sync(D& d, const A& a, const B& b, const C& c) {
  float left[256], right[256];
  for (int e = 0; e < 256; ++e) left[e] = __half2float(a.x[e]), right[e] = __half2float(b.x[e]);
  for (int e = 0; e < 256; ++e) {
    float total = c.x[e];
    for (int k = 0; k < 16; ++k) total += left[e / 16 * 16 + k] * right[k * 16 + e % 16];
    d.x[e] = total;
  }
}
}  // namespace nvcuda::wmma

using cudaStream_t = int;
enum { cudaFuncAttributeMaxDynamicSharedMemorySize };
template <class Kernel>
void cudaFuncSetAttribute(Kernel, int, int) {}
template <class T>
void cudaMallocAsync(T** memory, size_t bytes, cudaStream_t) {
  *memory = static_cast<T*>(malloc(bytes));
}
inline void cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) { memset(memory, value, bytes); }
inline void cudaFreeAsync(void* memory, cudaStream_t) { free(memory); }
