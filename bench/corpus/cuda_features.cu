// Small kernels, one feature of CUDA each; arguments and expected values are in cuda_cases.py.
#include <cstdint>
#include <cstdio>
#include <cassert>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
#define K extern "C" __global__ void

__device__ __noinline__ float poly(float x, int n) { float r = 1; for (int i = 0; i < n; i++) r = r * x + 1; return r; }
K call_noinline(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = poly(x[i], 1 + i % 3); }

__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
K recursion(int* y) { y[threadIdx.x] = fib(threadIdx.x % 8); }

typedef float (*Op)(float, float);
__device__ float plus_(float a, float b) { return a + b; }
__device__ float times_(float a, float b) { return a * b; }
__device__ Op table[2] = {plus_, times_};
K function_pointer(const float* x, float* y, int which) { int i = threadIdx.x; y[i] = table[(which + i) & 1](x[i], 3.f); }

struct Box { float w, h; int tag[3]; const float* p; };
K struct_param(Box b, float* y) { int i = threadIdx.x; y[i] = b.w * b.h + b.tag[i % 3] + b.p[i]; }

K print_assert(const int* x, int n) { int i = threadIdx.x; if (i < 3) printf("x[%d] = %d %s %.2f\n", i, x[i], "text", x[i] * .5); assert(x[i] < n); }

K local_array(const int* x, int* y, int n) { int a[16]; int t = threadIdx.x; for (int i = 0; i < 16; i++) a[i] = x[t * 16 + i];
  for (int i = 0; i < n; i++) { int j = a[i] & 15; int s = a[j]; a[j] = a[i]; a[i] = s; } y[t] = a[n & 15]; }

__constant__ float coefficients[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 5;
__managed__ int managed_value = 7;
K constants(float* y) { int i = threadIdx.x; y[i] = coefficients[i & 7] + managed_value; atomicAdd(&counter, 1); }

K atomics(int* y, unsigned* u, float* f, unsigned long long* l, double* d) { int t = threadIdx.x;
  atomicAdd(y, 1); atomicSub(y + 1, 2); atomicMax(y + 2, t); atomicMin(y + 3, -t); atomicAnd(y + 4, ~(1 << (t & 31))); atomicOr(y + 5, 1 << (t & 31)); atomicXor(y + 6, t);
  atomicExch(y + 7, t * 0 + 9); atomicCAS(y + 8, 0, 4); atomicInc(u, 40); atomicDec(u + 1, 40); atomicAdd(f, .5f); atomicAdd(l, 1ull << 33); atomicAdd(d, .25); }
K half_atomics(__half* h, __half2* h2, __nv_bfloat16* b) { atomicAdd(h, __float2half(1.f)); atomicAdd(h2, __floats2half2_rn(1.f, 2.f)); atomicAdd(b, __float2bfloat16(1.f)); }
K cas_loop(float* y, const float* x) { int* p = (int*)y; int old = *p, seen; do { seen = old; old = atomicCAS(p, seen, __float_as_int(__int_as_float(seen) + x[threadIdx.x])); } while (old != seen); }

K warp_ops(int* y) { int t = threadIdx.x; int v = t; for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
  y[t] = v + __ballot_sync(~0u, t & 1) + __popc(__match_any_sync(~0u, t / 4)) + __reduce_add_sync(~0u, t) + __any_sync(~0u, t == 3) + __shfl_up_sync(~0u, t, 2) + __activemask() * 0; }
K warp_match_all(int* y) { int p; unsigned m = __match_all_sync(~0u, 7, &p); y[threadIdx.x] = __popc(m) + p + __shfl_down_sync(~0u, (int)threadIdx.x, 3, 8); }
K cg_reduce(const float* x, float* y, int n) { __shared__ float s[32]; auto b = cg::this_thread_block(); auto w = cg::tiled_partition<32>(b);
  float v = 0; for (int i = b.thread_rank(); i < n; i += b.size()) v += x[i]; v = cg::reduce(w, v, cg::plus<float>()); if (w.thread_rank() == 0) s[w.meta_group_rank()] = v; b.sync();
  if (w.meta_group_rank() == 0) { v = w.thread_rank() < w.meta_group_size() ? s[w.thread_rank()] : 0; v = cg::reduce(w, v, cg::plus<float>()); if (b.thread_rank() == 0) *y = v; } }
K cg_coalesced(int* y) { if (threadIdx.x % 3 == 0) { auto g = cg::coalesced_threads(); y[threadIdx.x] = g.thread_rank() * 100 + g.size(); } }
K cg_grid_sync(int* x, int* y) { auto g = cg::this_grid(); int i = g.thread_rank(), n = g.size(); x[i] = i * i; g.sync(); y[i] = x[(i + 97) % n]; }
K cg_cluster(int* y) { __shared__ int s[64]; auto c = cg::this_cluster(); s[threadIdx.x] = c.block_rank() * 1000 + threadIdx.x; c.sync();
  int* far = c.map_shared_rank(s, (c.block_rank() + 1) % c.num_blocks()); y[blockIdx.x * 64 + threadIdx.x] = far[63 - threadIdx.x]; c.sync(); }

K textures(cudaTextureObject_t t, float* y, int w) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = tex1D<float>(t, (i % w) + .5f) + tex1Dfetch<float>(t, i); }
K surfaces(cudaSurfaceObject_t s, float* y) { float v; surf2Dread(&v, s, threadIdx.x * 4, 0); y[threadIdx.x] = v; surf2Dwrite(v, s, threadIdx.x * 4, 1); }

__device__ inline void copy16(void* s, const void* g) { unsigned a = (unsigned)__cvta_generic_to_shared(s); asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(g)); }
K cp_async_pipeline(const float4* x, float4* y, int tiles) { __shared__ float4 s[2][64]; int t = threadIdx.x;
  copy16(&s[0][t], x + t); asm volatile("cp.async.commit_group;");
  for (int k = 0; k < tiles; k++) { if (k + 1 < tiles) copy16(&s[(k + 1) & 1][t], x + (k + 1) * 64 + t); asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;"); __syncthreads(); float4 v = s[k & 1][63 - t]; y[k * 64 + t] = v; __syncthreads(); } }

K math(const float* x, float* y, double* z) { int i = threadIdx.x; float v = x[i]; y[i] = sinf(v) + expf(v) + logf(fabsf(v) + 1) + powf(fabsf(v), .3f) + tanhf(v) + erff(v) + rsqrtf(1 + v * v) + fmodf(v, .7f) + cbrtf(v) + __fdividef(v, 2.f) + __fmaf_rd(v, v, v) + __fadd_ru(v, 1e-8f) + __fmul_rz(v, v);
  z[i] = sqrt((double)v * v + 1) + exp((double)v) + sin((double)v) + __dadd_rd((double)v, 1.) ; }
K integers(const int* x, int* y, long long* z) { int i = threadIdx.x, v = x[i]; y[i] = __clz(v) + __popc(v) + __ffs(v) + __brev(v) % 7 + v / 7 + v % 5 + __mulhi(v, 12345) + __dp4a(v, 0x01020304, 1) + __byte_perm(v, 5, 0x3210) + __funnelshift_l(v, 3, 7) + __sad(v, 3, 1u) + min(v, 3) + __vadd4(v, 0x01010101);
  z[i] = (long long)v * 123456789123ll / 77 + __mul64hi((long long)v, 1ll << 40); }
K halves(const __half* x, __half* y, __nv_bfloat16* z) { int i = threadIdx.x; __half2 a = __halves2half2(x[i], x[i]); a = __hfma2(a, a, __float2half2_rn(1.f)); y[i] = __hadd(hexp(__low2half(a)), hsqrt(x[i])); if (__hgt(x[i], __float2half(.5f))) y[i] = __hmax(y[i], x[i]); z[i] = __hmul(__float2bfloat16((float)x[i]), __float2bfloat16(3.f)); }
K clocks(long long* y) { long long a = clock64(); __nanosleep(20); y[threadIdx.x] = clock64() - a; unsigned s; asm volatile("mov.u32 %0, %%smid;" : "=r"(s)); y[threadIdx.x] += s * 0; }
K heap(int** y) { int* p = (int*)malloc(64); p[3] = threadIdx.x; y[threadIdx.x] = p; free(p); }
K dynamic_shared(const float* x, float* y) { extern __shared__ float s[]; int t = threadIdx.x; s[t] = x[t]; __syncthreads(); y[t] = s[blockDim.x - 1 - t]; }
K warp_switch(const int* x, int* y) { int t = threadIdx.x; int v = x[t]; switch (v & 7) { case 0: v += 5; break; case 1: v *= 3; break; case 2: v -= 9; break; case 3: v ^= 77; break; case 4: v = v << 2; break; case 5: v = -v; break; default: while (v > 3) v = v / 2; } y[t] = v; }
template <int N> __device__ __forceinline__ float tree(const float* s) { return tree<N / 2>(s) + tree<N / 2>(s + N / 2); }
template <> __device__ __forceinline__ float tree<1>(const float* s) { return *s; }
K templates(const float* x, float* y) { y[threadIdx.x] = tree<8>(x + 8 * threadIdx.x); }
#include <mma.h>
K wmma_product(const __half* a, const __half* b, float* c) { using namespace nvcuda::wmma; fragment<matrix_a, 16, 16, 16, __half, row_major> A; fragment<matrix_b, 16, 16, 16, __half, row_major> B; fragment<accumulator, 16, 16, 16, float> C;
  fill_fragment(C, 0.f); load_matrix_sync(A, a, 16); load_matrix_sync(B, b, 16); mma_sync(C, A, B, C); store_matrix_sync(c, C, 16, mem_row_major); }
