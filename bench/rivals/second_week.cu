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

extern "C" __global__ void __launch_bounds__(128)
    cross_entropy(const float* logits, const int* labels, float* losses, int N) {
  int64_t row = blockIdx.x;
  float greatest = -INFINITY, total = 0.0f;
  for (int j = threadIdx.x; j < N; j += 128) {
    float x = logits[row * N + j], raised = fmaxf(greatest, x);
    total = total * expf(greatest - raised) + expf(x - raised);
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
