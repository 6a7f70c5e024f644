// The kernels of examples/second_week in plain CUDA C++: the same algorithm, blocks, sizes and masks.
// bench/second_week.py compares their machine code with that of the examples.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

template <typename Op>
__device__ float block_reduce(float x, Op op) {
  __shared__ float parts[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) x = op(x, __shfl_xor_sync(~0u, x, offset));
  __syncthreads();
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = parts[0];
  for (int w = 1; w < warps; ++w) x = op(x, parts[w]);
  return x;
}

struct __align__(16) Bf8 {
  __nv_bfloat16 v[8];
};

struct __align__(16) Half8 {
  __half2 pair[4];
};

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void mma_16816(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices(uint32_t* r, const void* p) {
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)));
}

__device__ __forceinline__ uint32_t and_xor(uint32_t x, uint32_t mask, uint32_t pattern) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(x), "r"(mask), "r"(pattern));
  return r;
}

// Eight weights of a word, -8 .. 7, as four pairs of f16.
__device__ __forceinline__ void halves_of_word(uint32_t word, uint32_t* pairs) {
  uint32_t far[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint32_t made = and_xor(word >> (4 * k), 0x000f000f, 0x64086408);
    __half2 number = __hsub2(*reinterpret_cast<__half2*>(&made), __half2half2(__ushort_as_half(0x6408)));
    far[k] = *reinterpret_cast<uint32_t*>(&number);
  }
  pairs[0] = __byte_perm(far[0], far[1], 0x5410), pairs[1] = __byte_perm(far[2], far[3], 0x5410);
  pairs[2] = __byte_perm(far[0], far[1], 0x7632), pairs[3] = __byte_perm(far[2], far[3], 0x7632);
}

extern "C" __global__ void __launch_bounds__(128) depthwise_conv(const __half* x, const __half* filters, __half* y, int H, int W) {
  constexpr int C = 64, V = 8, PIXELS = 4;
  int c = threadIdx.x * V, j = (blockIdx.x * 16 + threadIdx.y) * PIXELS, i = blockIdx.y, n = blockIdx.z;
  float sums[PIXELS][V] = {};
#pragma unroll
  for (int di = 0; di < 3; ++di) {
    float row[PIXELS + 2][V];
#pragma unroll
    for (int k = 0; k < PIXELS + 2; ++k) {
      int r = i + di - 1, q = j + k - 1;
      Half8 loaded = {};
      if (r >= 0 && r < H && q >= 0 && q < W)
        loaded = *reinterpret_cast<const Half8*>(x + ((int64_t(n) * H + r) * W + q) * C + c);
#pragma unroll
      for (int v = 0; v < V; ++v) row[k][v] = __half2float(reinterpret_cast<__half*>(&loaded)[v]);
    }
#pragma unroll
    for (int dj = 0; dj < 3; ++dj) {
      Half8 weight = *reinterpret_cast<const Half8*>(filters + (di * 3 + dj) * C + c);
#pragma unroll
      for (int k = 0; k < PIXELS; ++k)
#pragma unroll
        for (int v = 0; v < V; ++v)
          sums[k][v] += row[k + dj][v] * __half2float(reinterpret_cast<__half*>(&weight)[v]);
    }
  }
#pragma unroll
  for (int k = 0; k < PIXELS; ++k) {
    Half8 stored;
#pragma unroll
    for (int v = 0; v < V; ++v) reinterpret_cast<__half*>(&stored)[v] = __float2half(sums[k][v]);
    if (j + k < W) *reinterpret_cast<Half8*>(y + ((int64_t(n) * H + i) * W + j + k) * C + c) = stored;
  }
}

extern "C" __global__ void __launch_bounds__(128) cholesky(const float* a, float* factors, int B) {
  constexpr int N = 8;
  int matrix = blockIdx.x * 16 + threadIdx.x / N, row = threadIdx.x % N, first = threadIdx.x % 32 / N * N;
  float e[N];
#pragma unroll
  for (int j = 0; j < N; ++j) e[j] = matrix < B ? a[(int64_t(matrix) * N + row) * N + j] : 0.0f;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    float diagonal = sqrtf(__shfl_sync(~0u, e[k], first + k));
    e[k] = row == k ? diagonal : e[k] / diagonal;
#pragma unroll
    for (int j = k + 1; j < N; ++j) e[j] -= e[k] * __shfl_sync(~0u, e[k], first + j);
  }
#pragma unroll
  for (int j = 0; j < N; ++j)
    if (matrix < B) factors[(int64_t(matrix) * N + row) * N + j] = row >= j ? e[j] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(128) linear_recurrence(const float* a, const float* x, float* y, int M, int N) {
  int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  float carried = 0.0f;
  for (int first = 0; first < N; first += 32) {
    bool inside = row < M && first + lane < N;
    int64_t at = int64_t(row) * N + first + lane;
    float factor = inside ? a[at] : 0.0f, value = inside ? x[at] : 0.0f;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      float before = __shfl_up_sync(~0u, factor, distance), earlier = __shfl_up_sync(~0u, value, distance);
      if (lane >= distance) {
        value = factor * earlier + value;
        factor = factor * before;
      }
    }
    value = factor * carried + value;
    if (inside) y[at] = value;
    carried = __shfl_sync(~0u, value, 31);
  }
}

extern "C" __global__ void __launch_bounds__(128)
    rms_norm_f8(const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_fp8_e4m3* y, float* scales, int N) {
  constexpr int V = 8, PARTS = 2;
  int64_t row = blockIdx.x;
  float kept[PARTS][V], total = 0.0f;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    int j = (p * 128 + threadIdx.x) * V;
    Bf8 loaded = {};
    if (j < N) loaded = *reinterpret_cast<const Bf8*>(x + row * N + j);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      kept[p][v] = __bfloat162float(loaded.v[v]);
      total += kept[p][v] * kept[p][v];
    }
  }
  float norm = rsqrtf(block_reduce(total, [](float a, float b) { return a + b; }) / N + 1e-6f), largest = 1e-12f;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    int j = (p * 128 + threadIdx.x) * V;
    Bf8 loaded = {};
    if (j < N) loaded = *reinterpret_cast<const Bf8*>(weight + j);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      kept[p][v] = kept[p][v] * norm * __bfloat162float(loaded.v[v]);
      largest = fmaxf(largest, fabsf(kept[p][v]));
    }
  }
  float scale = block_reduce(largest, [](float a, float b) { return fmaxf(a, b); }) / 448.0f, inverse = 1.0f / scale;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    int j = (p * 128 + threadIdx.x) * V;
    __nv_fp8x4_e4m3 stored[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float* k = kept[p] + 4 * h;
      stored[h] = __nv_fp8x4_e4m3(make_float4(k[0] * inverse, k[1] * inverse, k[2] * inverse, k[3] * inverse));
    }
    if (j < N) *reinterpret_cast<uint2*>(y + row * N + j) = *reinterpret_cast<uint2*>(stored);
  }
  if (threadIdx.x == 0) scales[row] = scale;
}

extern "C" __global__ void __launch_bounds__(128) stencil7(const float* x, float* y, float alpha, int D, int H, int W) {
  int k = blockIdx.z, i = blockIdx.y * 4 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
  if (i >= H || j >= W) return;
  auto at = [&](int k, int i, int j) {
    k = min(max(k, 0), D - 1), i = min(max(i, 0), H - 1), j = min(max(j, 0), W - 1);
    return x[(int64_t(k) * H + i) * W + j];
  };
  float here = x[(int64_t(k) * H + i) * W + j];
  float around = at(k, i, j - 1) + at(k, i, j + 1) + at(k, i - 1, j) + at(k, i + 1, j);
  around = around + at(k - 1, i, j) + at(k + 1, i, j);
  y[(int64_t(k) * H + i) * W + j] = here + alpha * (around - 6.0f * here);
}

extern "C" __global__ void __launch_bounds__(256)
    cross_entropy(const float* logits, const int* labels, float* losses, int N) {
  int64_t row = blockIdx.x;
  float greatest = -INFINITY, total = 0.0f;
  for (int j = threadIdx.x; j < N; j += 4 * 256) {
    float found[4], raised = greatest, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      found[k] = j + k * 256 < N ? logits[row * N + j + k * 256] : -INFINITY;
      raised = fmaxf(raised, found[k]);
    }
    float rest = raised > -INFINITY ? raised : 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += expf(found[k] - rest);
    total = total * expf(greatest - rest) + sum;
    greatest = raised;
  }
  float best = block_reduce(greatest, [](float a, float b) { return fmaxf(a, b); });
  float mine = total > 0.0f ? total * expf(greatest - best) : 0.0f;
  float whole = block_reduce(mine, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) losses[row] = logf(whole) + best - logits[row * N + labels[row]];
}

extern "C" __global__ void __launch_bounds__(256) moe_routing(const int* expert, int* place, int* count, int N) {
  constexpr int EXPERTS = 8, WARPS = 8;
  __shared__ int counts[WARPS][EXPERTS];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, token = blockIdx.x * 256 + t;
  if (t < WARPS * EXPERTS) counts[t / EXPERTS][t % EXPERTS] = 0;
  __syncthreads();
  int mine = token < N ? expert[token] : EXPERTS;
  unsigned peers = __match_any_sync(~0u, mine);
  int before = __popc(peers & ((1u << lane) - 1));
  if (before == 0 && token < N) counts[warp][mine] = __popc(peers);
  __syncthreads();
  if (token < N) {
    for (int w = 0; w < warp; ++w) before += counts[w][mine];
    place[token] = before;
  }
  if (t < EXPERTS) {
    int total = 0;
    for (int w = 0; w < WARPS; ++w) total += counts[w][t];
    count[blockIdx.x * EXPERTS + t] = total;
  }
}

extern "C" __global__ void __launch_bounds__(128)
    state_update(float* state, const float* x, const float* dt, const float* A, const float* inputs,
                 const float* outputs, const float* D, float* y) {
  constexpr int CHANNELS = 64, STATES = 16, LANES = 8, V = 2;
  int t = threadIdx.x, b = blockIdx.y, channel = blockIdx.x * (128 / LANES) + t / LANES, part = t % LANES * V;
  float raw = dt[b * CHANNELS + channel], value = x[b * CHANNELS + channel];
  float step = raw <= 20.0f ? log1pf(expf(raw)) : raw;
  float2 a = *reinterpret_cast<const float2*>(A + channel * STATES + part);
  float2* at = reinterpret_cast<float2*>(state + (int64_t(b) * CHANNELS + channel) * STATES + part);
  float2 kept = *at, in = *reinterpret_cast<const float2*>(inputs + b * STATES + part);
  float2 out = *reinterpret_cast<const float2*>(outputs + b * STATES + part);
  kept.x = expf(a.x * step) * kept.x + in.x * (step * value);
  kept.y = expf(a.y * step) * kept.y + in.y * (step * value);
  *at = kept;
  float total = kept.x * out.x + kept.y * out.y;
  for (int offset = LANES / 2; offset > 0; offset /= 2) total += __shfl_xor_sync(~0u, total, offset);
  if (part == 0) y[b * CHANNELS + channel] = total + D[channel] * value;
}

extern "C" __global__ void __launch_bounds__(128) philox_dropout(const float* x, float* y, float keep, int N) {
  uint32_t number = blockIdx.x * 128 + threadIdx.x;
  uint32_t a = number, b = 0, c = 0, d = 0, first = 1234, second = 5678;
#pragma unroll
  for (int n = 0; n < 10; ++n) {
    uint64_t p = uint64_t(a) * 0xD2511F53u, q = uint64_t(c) * 0xCD9E8D57u;
    a = uint32_t(q >> 32) ^ b ^ first, b = uint32_t(q);
    c = uint32_t(p >> 32) ^ d ^ second, d = uint32_t(p);
    first += 0x9E3779B9u, second += 0xBB67AE85u;
  }
  int64_t at = int64_t(number) * 4;
  if (at >= N) return;
  float4 v = *reinterpret_cast<const float4*>(x + at);
  auto dropped = [&](uint32_t w, float v) { return float(w >> 8) * 0x1p-24f < keep ? v / keep : 0.0f; };
  *reinterpret_cast<float4*>(y + at) = {dropped(a, v.x), dropped(b, v.y), dropped(c, v.z), dropped(d, v.w)};
}

extern "C" __global__ void __launch_bounds__(128)
    w4a16(const __half* x, const uint32_t* w, const __half* scales, __half* y, int M, int N, int K) {
  constexpr int ROWS = 32, COLUMNS = 64, GROUP = 128;
  __shared__ __align__(16) __half ring[2][ROWS * GROUP];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, row = blockIdx.y * ROWS, column = blockIdx.x * COLUMNS + warp * 16;
  float total[2][2][4] = {};
  auto stage = [&](int group) {
#pragma unroll
    for (int k = 0; k < ROWS * GROUP / 8 / 128; ++k) {
      int r = k * 8 + t / 16, c = t % 16;
      __half* to = ring[group % 2] + r * GROUP + ((c / 4 ^ r % 4) * 4 + c % 4) * 8;
      int bytes = row + r < M ? 16 : 0;
      const __half* from = x + int64_t(bytes ? row + r : 0) * K + group * GROUP + c * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
    }
    asm volatile("cp.async.commit_group;");
  };
  stage(0);
  for (int group = 0; group < K / GROUP; ++group) {
    uint32_t weights[2][4];
    float scale[2][2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      int j = column + 8 * n + lane / 4;
#pragma unroll
      for (int k = 0; k < 4; ++k) weights[n][k] = j < N ? w[(int64_t(j) * K + group * GROUP) / 8 + k * 4 + lane % 4] : 0;
      int of = column + 8 * n + lane % 4 * 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) scale[n][e] = of + e < N ? __half2float(scales[int64_t(group) * N + of + e]) : 0.0f;
    }
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    if (group + 1 < K / GROUP) stage(group + 1);
    float part[2][2][4] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4 a[2][2][2];
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            int line = 16 * m + 8 * r + lane / 4;
            a[m][r][k] = *reinterpret_cast<uint4*>(
                ring[group % 2] + line * GROUP + (((2 * half + k) ^ line % 4) * 4 + lane % 4) * 8);
          }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        uint32_t b[2][4];
        halves_of_word(weights[n][2 * half], b[0]);
        halves_of_word(weights[n][2 * half + 1], b[1]);
#pragma unroll
        for (int p = 0; p < 4; ++p)
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            uint32_t left[4] = {(&a[m][0][0].x)[p], (&a[m][1][0].x)[p], (&a[m][0][1].x)[p], (&a[m][1][1].x)[p]};
            mma_16816(part[m][n], left, b[0][p], b[1][p]);
          }
      }
    }
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) total[m][n][e] += part[m][n][e] * scale[n][e % 2];
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        int i = row + 16 * m + e / 2 * 8 + lane / 4, j = column + 8 * n + lane % 4 * 2 + e % 2;
        if (i < M && j < N) y[int64_t(i) * N + j] = __float2half(total[m][n][e]);
      }
}

extern "C" __global__ void __launch_bounds__(128)
    implicit_gemm(const __half* x, const __half* filters, __half* y, int H, int W, int C, int F) {
  constexpr int PIXELS = 64, FILTERS = 64, DEPTH = 32;
  __shared__ __align__(16) __half pixels[PIXELS * DEPTH], weights[DEPTH * FILTERS];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  int j = blockIdx.x * PIXELS, i = blockIdx.y, f = blockIdx.z * FILTERS;
  float total[8][4] = {};
  auto pixel = [&](int r, int c) { return pixels + r * DEPTH + (c ^ r / 2 % 4) * 8; };
  auto weight = [&](int r, int c) { return weights + r * FILTERS + (c ^ r % 8) * 8; };
  for (int c = 0; c < C; c += DEPTH)
    for (int di = 0; di < 3; ++di)
#pragma unroll
      for (int dj = 0; dj < 3; ++dj) {
        uint4 a[2], b[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          int h = i + di - 1, q = j + dj - 1 + k * 32 + t / 4;
          bool inside = h >= 0 && h < H && q >= 0 && q < W;
          a[k] = inside ? *reinterpret_cast<const uint4*>(x + (int64_t(h) * W + q) * C + c + t % 4 * 8) : uint4{};
          int n = f + t % 8 * 8;
          b[k] = n < F ? *reinterpret_cast<const uint4*>(
                             filters + (int64_t(3 * di + dj) * C + c + k * 16 + t / 8) * F + n) : uint4{};
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          *reinterpret_cast<uint4*>(pixel(k * 32 + t / 4, t % 4)) = a[k];
          *reinterpret_cast<uint4*>(weight(k * 16 + t / 8, t % 8)) = b[k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          uint32_t left[4];
          load_matrices<false>(left, pixel(16 * warp + lane % 16, 2 * k + lane / 16));
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            uint32_t right[4];
            load_matrices<true>(right, weight(16 * k + lane % 16, 2 * n + lane / 16));
            mma_16816(total[2 * n], left, right[0], right[1]);
            mma_16816(total[2 * n + 1], left, right[2], right[3]);
          }
        }
      }
#pragma unroll
  for (int n = 0; n < 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      int q = j + 16 * warp + 8 * r + lane / 4, at = f + 8 * n + lane % 4 * 2;
      if (q < W && at < F)
        *reinterpret_cast<__half2*>(y + (int64_t(i) * W + q) * F + at) =
            __floats2half2_rn(total[n][2 * r], total[n][2 * r + 1]);
    }
}

extern "C" __global__ void __launch_bounds__(128)
    block_sparse(const int* first, const int* columns, const __half* blocks, const __half* x, float* y, int N) {
  constexpr int SIDE = 32, COLUMNS = 64;
  __shared__ __align__(16) __half tile[SIDE * COLUMNS];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, n = blockIdx.x * COLUMNS, row = blockIdx.y;
  float total[2][2][4] = {};
  auto at = [&](int r, int c) { return tile + r * COLUMNS + (c ^ r % 8) * 8; };
  for (int z = first[row]; z < first[row + 1]; ++z) {
    uint32_t left[2][2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int k = 0; k < 2; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          left[m][k][e] = *reinterpret_cast<const uint32_t*>(
              blocks + (int64_t(z) * SIDE + 16 * m + e % 2 * 8 + lane / 4) * SIDE + 16 * k + e / 2 * 8 + lane % 4 * 2);
    uint4 b[2];
    int from = columns[z];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      int c = n + t % 8 * 8;
      b[k] = c < N ? *reinterpret_cast<const uint4*>(x + (int64_t(from) * SIDE + k * 16 + t / 8) * N + c) : uint4{};
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; ++k) *reinterpret_cast<uint4*>(at(k * 16 + t / 8, t % 8)) = b[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      uint32_t right[4];
      load_matrices<true>(right, at(16 * k + lane % 16, 2 * warp + lane / 16));
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        mma_16816(total[m][0], left[m][k], right[0], right[1]);
        mma_16816(total[m][1], left[m][k], right[2], right[3]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        int i = 16 * m + 8 * r + lane / 4, j = n + 16 * warp + 8 * c + lane % 4 * 2;
        if (j < N)
          *reinterpret_cast<float2*>(y + (int64_t(row) * SIDE + i) * N + j) =
              make_float2(total[m][c][2 * r], total[m][c][2 * r + 1]);
      }
}

extern "C" __global__ void __launch_bounds__(256) fft(const float2* x, const float2* roots, float2* y) {
  constexpr int N = 1024, T = 256;
  __shared__ float2 tiles[2][N];
  int t = threadIdx.x;
  int64_t b = blockIdx.x;
  float2 v[4];
  auto place = [](int at, int shift) { return at / 16 * 16 + (at % 16 ^ (shift ? at / 16 % 4 * 4 : at / 16 % 16)); };
#pragma unroll
  for (int r = 0; r < 4; ++r) v[r] = x[b * N + t + T * r];
#pragma unroll
  for (int step = 0; step < 5; ++step) {
    int span = 1 << (2 * step), k = t % span, first = t / span * span * 4 + k;
#pragma unroll
    for (int r = 1; r < 4; ++r)
      if (step) {
        float2 w = roots[r * k * (N / (4 * span))];
        v[r] = make_float2(v[r].x * w.x - v[r].y * w.y, v[r].x * w.y + v[r].y * w.x);
      }
    float2 even = make_float2(v[0].x + v[2].x, v[0].y + v[2].y), odd = make_float2(v[0].x - v[2].x, v[0].y - v[2].y);
    float2 sums = make_float2(v[1].x + v[3].x, v[1].y + v[3].y), turned = make_float2(v[1].y - v[3].y, v[3].x - v[1].x);
    v[0] = make_float2(even.x + sums.x, even.y + sums.y), v[1] = make_float2(odd.x + turned.x, odd.y + turned.y);
    v[2] = make_float2(even.x - sums.x, even.y - sums.y), v[3] = make_float2(odd.x - turned.x, odd.y - turned.y);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (step == 4) y[b * N + first + r * span] = v[r];
      else tiles[step % 2][place(first + r * span, step % 2)] = v[r];
    }
    if (step < 4) {
      __syncthreads();
#pragma unroll
      for (int r = 0; r < 4; ++r) v[r] = tiles[step % 2][place(t + T * r, step % 2)];
    }
  }
}

extern "C" __global__ void __launch_bounds__(256)
    fused_classifier(__nv_bfloat16* logits, float* losses, const int* labels, float scale, int V, int P) {
  constexpr int T = 256, WIDTH = 8;
  int64_t row = blockIdx.x;
  int t = threadIdx.x, label = labels[row];
  float largest = -INFINITY, total = 0.0f;
  auto numbers = [&](int j, float* found) {
    Bf8 loaded = *reinterpret_cast<const Bf8*>(logits + row * P + j);
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) found[k] = j + k < V ? __bfloat162float(loaded.v[k]) : -INFINITY;
  };
  for (int j = WIDTH * t; j < P; j += WIDTH * T) {
    float found[WIDTH], most = largest, sum = 0.0f;
    numbers(j, found);
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) most = fmaxf(most, found[k]);
    float rest = most > -INFINITY ? most : 0.0f;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) sum += expf(found[k] - rest);
    total = total * expf(largest - rest) + sum;
    largest = most;
  }
  float most = block_reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  float sums = block_reduce(total * expf(largest - most), [](float a, float b) { return a + b; });
  if (t == 0) losses[row] = logf(sums) + most - __bfloat162float(logits[row * P + label]);
  __syncthreads();
  float factor = scale / sums;
  for (int j = WIDTH * t; j < P; j += WIDTH * T) {
    float found[WIDTH];
    numbers(j, found);
    Bf8 stored;
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      float share = expf(found[k] - most) * factor;
      stored.v[k] = __float2bfloat16(label == j + k ? share - scale : share);
    }
    *reinterpret_cast<Bf8*>(logits + row * P + j) = stored;
  }
}

extern "C" __global__ void __launch_bounds__(128)
    top_experts(const float* scores, float* weights, int* experts, int M) {
  constexpr int EXPERTS = 64, CHOSEN = 4;
  int lane = threadIdx.x % 32, row = blockIdx.x * 4 + threadIdx.x / 32;
  if (row >= M) return;
  float mine[2], best[CHOSEN], total = 0.0f;
  int which[CHOSEN];
#pragma unroll
  for (int e = 0; e < 2; ++e) mine[e] = scores[int64_t(row) * EXPERTS + e * 32 + lane];
#pragma unroll
  for (int n = 0; n < CHOSEN; ++n) {
    bool second = mine[1] > mine[0];
    float top = second ? mine[1] : mine[0];
    int at = second ? lane + 32 : lane;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      float other = __shfl_xor_sync(~0u, top, offset);
      int from = __shfl_xor_sync(~0u, at, offset);
      if (other > top || (other == top && from < at)) top = other, at = from;
    }
    best[n] = top, which[n] = at;
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (at == e * 32 + lane) mine[e] = -INFINITY;
  }
#pragma unroll
  for (int n = CHOSEN - 1; n >= 0; --n) total += best[n] = expf(best[n] - best[0]);
#pragma unroll
  for (int n = 0; n < CHOSEN; ++n)
    if (lane == n) {
      weights[int64_t(row) * CHOSEN + n] = best[n] / total;
      experts[int64_t(row) * CHOSEN + n] = which[n];
    }
}

extern "C" __global__ void __launch_bounds__(128)
    radix_sort(const uint32_t* key, const uint32_t* payload, uint32_t* keys, uint32_t* payloads, int N) {
  constexpr int T = 1024, V = 8, BITS = 16;
  __shared__ __align__(16) uint32_t moved[2][T];
  __shared__ int parts[4];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, first = blockIdx.x * T;
#pragma unroll
  for (int e = 0; e < V; ++e) {
    int at = e * 128 + t;
    moved[0][at] = first + at < N ? key[first + at] : (1 << BITS) - 1;
    moved[1][at] = first + at < N ? payload[first + at] : 0;
  }
  for (int bit = 0; bit < BITS; ++bit) {
    uint32_t k[V], v[V];
    int ones = 0;
    __syncthreads();
#pragma unroll
    for (int e = 0; e < V; e += 4) {
      *reinterpret_cast<uint4*>(k + e) = *reinterpret_cast<uint4*>(moved[0] + t * V + e);
      *reinterpret_cast<uint4*>(v + e) = *reinterpret_cast<uint4*>(moved[1] + t * V + e);
    }
#pragma unroll
    for (int e = 0; e < V; ++e) ones += k[e] >> bit & 1;
    int through = ones;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      int earlier = __shfl_up_sync(~0u, through, distance);
      if (lane >= distance) through += earlier;
    }
    if (lane == 31) parts[warp] = through;
    __syncthreads();
    int total = 0, before = through - ones;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if (w < warp) before += parts[w];
      total += parts[w];
    }
#pragma unroll
    for (int e = 0; e < V; ++e) {
      int one = k[e] >> bit & 1, place = one ? T - total + before : t * V + e - before;
      moved[0][place] = k[e], moved[1][place] = v[e];
      before += one;
    }
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < V; ++e) {
    int at = e * 128 + t;
    if (first + at < N) keys[first + at] = moved[0][at], payloads[first + at] = moved[1][at];
  }
}

extern "C" __global__ void __launch_bounds__(128)
    segmented_sum(const int* segment, const float* x, float* y, int N) {
  constexpr int T = 1024, V = 8;
  __shared__ float sums[4];
  __shared__ int starts[4];
  int t = threadIdx.x, lane = t % 32, warp = t / 32, first = blockIdx.x * T + t * V;
  int mine[V + 2];
  float value[V];
#pragma unroll
  for (int e = 0; e < V + 2; ++e) {
    int at = first + e - 1;
    mine[e] = at >= 0 && at < N ? segment[at] : 0;
  }
#pragma unroll
  for (int e = 0; e < V; ++e) value[e] = first + e < N ? x[first + e] : 0.0f;
  bool begun[V];
#pragma unroll
  for (int e = 0; e < V; ++e) {
    bool begins = mine[e + 1] != mine[e];
    begun[e] = begins || (e > 0 && begun[e - 1]);
    if (e > 0 && !begins) value[e] += value[e - 1];
  }
  float sum = value[V - 1];
  int start = begun[V - 1];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    float earlier = __shfl_up_sync(~0u, sum, distance);
    int before = __shfl_up_sync(~0u, start, distance);
    if (lane >= distance) {
      if (!start) sum += earlier;
      start |= before;
    }
  }
  if (lane == 31) sums[warp] = sum, starts[warp] = start;
  __syncthreads();
  float carried = 0.0f;
#pragma unroll
  for (int w = 0; w < 3; ++w)
    if (w < warp) carried = starts[w] ? sums[w] : carried + sums[w];
  float earlier = __shfl_up_sync(~0u, sum, 1);
  int before = __shfl_up_sync(~0u, start, 1);
  if (lane > 0) carried = before ? earlier : carried + earlier;
#pragma unroll
  for (int e = 0; e < V; ++e) {
    int at = first + e;
    bool ends = mine[e + 1] != mine[e + 2] || at + 1 >= N || t * V + e == T - 1;
    if (ends && at < N) atomicAdd(y + mine[e + 1], begun[e] ? value[e] : value[e] + carried);
  }
}

extern "C" __global__ void __launch_bounds__(128)
    selective_scan(const float* x, const float* d, const float* decay, const float* b, const float* c, float* y, int L) {
  constexpr int STATES = 16, TILE = 64, V = 8, PARTS = 8;
  __shared__ float sums[4][TILE];
  int t = threadIdx.x, lane = t % 32, part = t % PARTS, state = t / PARTS;
  int64_t channel = blockIdx.x;
  float rate = decay[channel * STATES + state], h = 0.0f;
  for (int first = 0; first < L; first += TILE) {
    float factor[V], value[V];
#pragma unroll
    for (int e = 0; e < V; ++e) {
      int at = first + part * V + e;
      float step = at < L ? d[channel * L + at] : 0.0f, in = at < L ? x[channel * L + at] : 0.0f;
      value[e] = step * in * (at < L ? b[int64_t(at) * STATES + state] : 0.0f);
      factor[e] = expf(step * rate);
      if (e > 0) value[e] += factor[e] * value[e - 1], factor[e] *= factor[e - 1];
    }
    float through = factor[V - 1], sum = value[V - 1];
#pragma unroll
    for (int distance = 1; distance < PARTS; distance *= 2) {
      float before = __shfl_up_sync(~0u, through, distance, PARTS), earlier = __shfl_up_sync(~0u, sum, distance, PARTS);
      if (part >= distance) sum += through * earlier, through *= before;
    }
    float before = __shfl_up_sync(~0u, through, 1, PARTS), earlier = __shfl_up_sync(~0u, sum, 1, PARTS);
    float entering = part > 0 ? before * h + earlier : h;
    h = __shfl_sync(~0u, through * h + sum, PARTS - 1, PARTS);
#pragma unroll
    for (int e = 0; e < V; ++e) {
      int at = first + part * V + e;
      float found = (factor[e] * entering + value[e]) * (at < L ? c[int64_t(at) * STATES + state] : 0.0f);
      found += __shfl_xor_sync(~0u, found, 8);
      found += __shfl_xor_sync(~0u, found, 16);
      if (lane < PARTS) sums[t / 32][part * V + e] = found;
    }
    __syncthreads();
    if (t < TILE && first + t < L) y[channel * L + first + t] = sums[0][t] + sums[1][t] + sums[2][t] + sums[3][t];
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(128)
    paged_decode(const __half* query, const __half* keys, const __half* values, const int* table, const int* length,
                 __half* out) {
  constexpr int D = 64, PAGE = 16, TILE = 64, MOST = 8, HEADS = 2, V = 8, LANES = D / V, ROWS = TILE * LANES / 128;
  constexpr float SCALE = 1.4426950408889634f / 8.0f;
  __shared__ float sums[4][D];
  int t = threadIdx.x, lane = t % 32, head = blockIdx.x, b = blockIdx.y, part = t % LANES;
  auto numbers = [](const __half* from, float* found) {
    Half8 loaded = *reinterpret_cast<const Half8*>(from);
#pragma unroll
    for (int k = 0; k < V; ++k) found[k] = __half2float(reinterpret_cast<__half*>(&loaded)[k]);
  };
  float q[V], found[V] = {}, best = -INFINITY, total = 0.0f;
  numbers(query + (b * HEADS + head) * D + part * V, q);
  int end = length[b];
  for (int first = 0; first < end; first += TILE) {
    int64_t row[ROWS];
    float s[ROWS], top = -INFINITY;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      int position = first + r * (TILE / ROWS) + t / LANES;
      int page = position < end ? table[b * MOST + position / PAGE] : 0;
      row[r] = ((int64_t(page) * HEADS + head) * PAGE + position % PAGE) * D + part * V;
      float k[V];
      numbers(keys + row[r], k);
      s[r] = 0.0f;
#pragma unroll
      for (int e = 0; e < V; ++e) s[r] += q[e] * k[e];
#pragma unroll
      for (int offset = LANES / 2; offset > 0; offset /= 2) s[r] += __shfl_xor_sync(~0u, s[r], offset);
      s[r] = position < end ? s[r] * SCALE : -INFINITY;
      top = fmaxf(top, s[r]);
    }
    top = fmaxf(best, block_reduce(top, [](float a, float b) { return fmaxf(a, b); }));
    float fade = exp2f(best - top);
    total *= fade, best = top;
#pragma unroll
    for (int e = 0; e < V; ++e) found[e] *= fade;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      float v[V], p = exp2f(s[r] - top);
      numbers(values + row[r], v);
      total += p;
#pragma unroll
      for (int e = 0; e < V; ++e) found[e] += p * v[e];
    }
  }
  total = block_reduce(part == 0 ? total : 0.0f, [](float a, float b) { return a + b; });
#pragma unroll
  for (int e = 0; e < V; ++e) {
    found[e] += __shfl_xor_sync(~0u, found[e], 8);
    found[e] += __shfl_xor_sync(~0u, found[e], 16);
    if (lane < LANES) sums[t / 32][part * V + e] = found[e];
  }
  __syncthreads();
  if (t < D)
    out[(b * HEADS + head) * D + t] = __float2half((sums[0][t] + sums[1][t] + sums[2][t] + sums[3][t]) / total);
}
