// One planted fault a kernel: the line that its report names ends in HERE. A kernel whose name begins with ok has none.
#include <cassert>
#define KERNEL extern "C" __global__ void
#define CLUSTERED extern "C" __global__ void __cluster_dims__(2, 1, 1)
#define ARGUMENTS (const float *x, float *y, int n)
#define ADDRESS(p) ((unsigned)__cvta_generic_to_shared(p))
#define SYNC_CLUSTER asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
#define START_COPY(to, from, bar)                                                                               \
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(ADDRESS(bar)) : "memory");       \
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"( \
                   ADDRESS(to)), "l"(from), "r"(ADDRESS(bar)) : "memory")
#define START_STORE(to, from)                                                                                    \
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256; cp.async.bulk.commit_group;" ::"l"(to), \
               "r"(ADDRESS(from)) : "memory")
#define INIT(bar) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(ADDRESS(bar)) : "memory"); \
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define FENCE_PROXY asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define READ_OTHER_BLOCK(found, own)                                                                             \
  asm volatile("{ .reg .b32 a; mov.u32 a, %%cluster_ctarank; xor.b32 a, a, 1; mapa.shared::cluster.u32 a, %1, a; " \
               "ld.shared::cluster.f32 %0, [a]; }" : "=f"(found) : "r"(ADDRESS(own)) : "memory")

KERNEL outside_read ARGUMENTS {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i + 1];  // HERE
}
KERNEL outside_write ARGUMENTS {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i + 1] = x[i];  // HERE
}
KERNEL far_outside ARGUMENTS { y[threadIdx.x] = x[threadIdx.x + 5000]; }  // HERE
KERNEL before_the_start ARGUMENTS { y[threadIdx.x] = x[(int)threadIdx.x - 4]; }  // HERE
__device__ __forceinline__ float element(const float *p, int i) {
  return p[3 * i];  // HERE
}
KERNEL in_an_inlined_function ARGUMENTS { y[threadIdx.x] = element(x, threadIdx.x); }
__device__ __noinline__ void put(float *p, int i, float v) {
  p[i] = v;  // HERE
}
KERNEL in_a_called_function ARGUMENTS { put(y, 2 * n + threadIdx.x, x[threadIdx.x]); }
KERNEL null_pointer ARGUMENTS {
  const float *p = (const float *)(long long)(n - 64);
  y[threadIdx.x] = p[threadIdx.x];  // HERE
}
KERNEL misaligned ARGUMENTS {
  float4 v = *(const float4 *)(x + threadIdx.x);  // HERE
  y[threadIdx.x] = v.x + v.w;
}
KERNEL outside_shared ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x * 2] = x[threadIdx.x];  // HERE
  __syncthreads();
  if (threadIdx.x < 1) y[threadIdx.x] = s[threadIdx.x];
}
KERNEL unwritten_shared ARGUMENTS {
  __shared__ float s[64];
  if (threadIdx.x != 5) s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];  // HERE
}
KERNEL unwritten_local ARGUMENTS {
  float a[16];
  for (int i = 0; i < n / 16; i++) a[(i + threadIdx.x) & 15] = x[i];
  y[threadIdx.x] = a[(threadIdx.x + n / 16 + 1) & 15];  // HERE
}
KERNEL unwritten_global ARGUMENTS {
  y[threadIdx.x] += x[threadIdx.x];  // HERE
}
KERNEL race_between_warps ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = s[threadIdx.x ^ 32];  // HERE
}
KERNEL race_after_reading ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float v = s[threadIdx.x ^ 32];
  s[threadIdx.x] = v + 1;  // HERE
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];
}
KERNEL race_in_one_instruction ARGUMENTS {
  __shared__ float s[8];
  s[threadIdx.x & 7] = x[threadIdx.x];  // HERE
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x & 7];
}
KERNEL race_in_a_warp ARGUMENTS {
  __shared__ float s[64];
  float v = x[threadIdx.x];
  s[threadIdx.x] = v;
  if (threadIdx.x & 1) s[threadIdx.x ^ 1] = v + 1;
  y[threadIdx.x] = s[threadIdx.x];
}
KERNEL race_of_blocks ARGUMENTS {
  y[threadIdx.x] = x[threadIdx.x] + blockIdx.x;  // HERE
}
KERNEL lost_update ARGUMENTS {
  y[0] += 1;  // HERE
}
KERNEL unfenced_flag ARGUMENTS {
  int *flag = (int *)(y + 32);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0);
    y[1] = *(volatile float *)y;  // HERE
  }
}
KERNEL divergent_barrier ARGUMENTS {
  if (threadIdx.x < 32) __syncthreads();  // HERE
  y[threadIdx.x] = x[threadIdx.x];
}
KERNEL endless_wait ARGUMENTS {
  while (*(volatile float *)(y + 40) == 0);  // HERE
}
KERNEL two_locks ARGUMENTS {
  int *lock = (int *)y;
  if (threadIdx.x) return;
  int first = blockIdx.x & 1;
  while (atomicCAS(lock + first, 0, 1));
  __threadfence();
  atomicAdd(lock + 8, 1);
  while (atomicAdd(lock + 8, 0) < 2);  // both hold one lock
  while (atomicCAS(lock + 1 - first, 0, 1));  // HERE
}
KERNEL assertion ARGUMENTS {
  assert(x[threadIdx.x] > 1e9f);  // HERE
}
KERNEL early_use_of_a_copy ARGUMENTS {
  __shared__ float s[64];
  unsigned to = (unsigned)__cvta_generic_to_shared(s + threadIdx.x);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  y[threadIdx.x] = s[threadIdx.x];  // HERE
}
KERNEL leak ARGUMENTS {
  float *p = (float *)malloc(16);  // HERE
  *p = x[threadIdx.x];
  y[threadIdx.x] = *p;
}
KERNEL use_after_free ARGUMENTS {
  volatile float *p = (volatile float *)malloc(16);
  *p = x[threadIdx.x];
  free((void *)p);
  y[threadIdx.x] = *p;  // HERE
}
KERNEL early_use_of_a_bulk_copy ARGUMENTS {
  __shared__ __align__(128) float s[64];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) { INIT(&bar); }
  __syncthreads();
  if (threadIdx.x == 0) { START_COPY(s, x, &bar); }
  __syncthreads();
  y[threadIdx.x] = s[threadIdx.x];  // HERE
}
KERNEL early_release_of_a_bulk_store ARGUMENTS {
  __shared__ __align__(128) float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  FENCE_PROXY;
  __syncthreads();
  if (threadIdx.x == 0) { START_STORE(y + 64 * blockIdx.x, s); }
  __syncthreads();
  s[threadIdx.x] = 0;  // HERE
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
KERNEL missing_fence_before_a_bulk_store ARGUMENTS {
  __shared__ __align__(128) float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) { START_STORE(y + 64 * blockIdx.x, s); }  // HERE
  if (threadIdx.x == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
KERNEL mbarrier_that_nobody_initialised ARGUMENTS {
  __shared__ unsigned long long bar;
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(ADDRESS(&bar)) : "memory");  // HERE
}
CLUSTERED race_in_a_cluster ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float far;
  READ_OTHER_BLOCK(far, s + threadIdx.x);  // HERE
  SYNC_CLUSTER;
  y[64 * blockIdx.x + threadIdx.x] = far;
}
CLUSTERED race_with_the_end_of_a_block ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  float far;
  SYNC_CLUSTER;
  READ_OTHER_BLOCK(far, s + threadIdx.x); y[64 * blockIdx.x + threadIdx.x] = far; }  // HERE
CLUSTERED ok_cluster ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  SYNC_CLUSTER;
  float far;
  READ_OTHER_BLOCK(far, s + threadIdx.x);
  SYNC_CLUSTER;
  y[64 * blockIdx.x + threadIdx.x] = far;
}
KERNEL ok_bulk_copy ARGUMENTS {
  __shared__ __align__(128) float s[64];
  __shared__ unsigned long long bar;
  if (threadIdx.x == 0) { INIT(&bar); }
  __syncthreads();
  if (threadIdx.x == 0) { START_COPY(s, x, &bar); }
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra W; }" ::"r"(ADDRESS(&bar)) : "memory");
  s[threadIdx.x] += 1;
  FENCE_PROXY;
  __syncthreads();
  if (threadIdx.x == 0) { START_STORE(y + 64 * blockIdx.x, s); asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
}
KERNEL ok_copy ARGUMENTS {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i];
}
KERNEL ok_fenced_flag ARGUMENTS {
  int *flag = (int *)(y + 32);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    y[0] = x[0];
    __threadfence();
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0);
    __threadfence();
    y[1] = *(volatile float *)y;
  }
}
KERNEL ok_last_block ARGUMENTS {
  __shared__ bool last;
  y[1 + blockIdx.x] = x[blockIdx.x];
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd((int *)(y + 32), 1) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < gridDim.x; i++) sum += ((volatile float *)y)[1 + i];
    y[0] = sum;
  }
}
KERNEL ok_tree_sum ARGUMENTS {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  for (int d = 32; d; d /= 2) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(y, s[0]);
}
KERNEL ok_heap ARGUMENTS {
  float *p = (float *)malloc(16);
  *p = x[threadIdx.x];
  y[threadIdx.x] = *p;
  free(p);
}
