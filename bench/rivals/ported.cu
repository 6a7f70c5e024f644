// The kernels of examples/ported in plain CUDA C++: the same algorithm, blocks, sizes and masks.
// bench/second_week.py compares their machine code and times with those of the examples.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

struct __align__(16) Half8 {
  __half v[8];
};

struct __align__(16) Bf8 {
  __nv_bfloat16 v[8];
};

__device__ __forceinline__ uint32_t squirrel(uint32_t position) {
  uint32_t x = position * 0xB5297A4Du + 1337u;
  x = (x ^ x >> 8) + 0x68E31DA4u;
  x = (x ^ x << 8) * 0x1B56C4E9u;
  return x ^ x >> 8;
}

// A number of 4 bits n at bit 0, and one at bit 16, as 1024 + n: the last bits of the significand of f16.
__device__ __forceinline__ __half2 numbers(uint32_t word, int shift) {
  uint32_t bits = word >> shift & 0x000F000Fu | 0x64006400u;
  return *reinterpret_cast<__half2*>(&bits);
}

extern "C" __global__ void __launch_bounds__(256)
    adamw(__nv_bfloat16* weights, float* masters, const __nv_bfloat16* gradients, float* m, float* v, int N) {
  constexpr float RATE = 1e-3f, DECAY = 0.1f, EPSILON = 1e-8f, NEW1 = 1 - 0.9, NEW2 = 1 - 0.95;
  constexpr float FIRST = 1.0 / 0.6513215599, SECOND = 1.0 / 0.40126306076162115;  // the corrections of step 10
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= N) return;
  float gradient = __bfloat162float(gradients[i]), weight = masters[i];
  float first = m[i] + NEW1 * (gradient - m[i]), second = v[i] + NEW2 * (gradient * gradient - v[i]);
  m[i] = first;
  v[i] = second;
  weight -= RATE * (first * FIRST / (sqrtf(second * SECOND) + EPSILON) + DECAY * weight);
  masters[i] = weight;
  uint32_t rounded = (__float_as_uint(weight) + (squirrel(i) & 0xFFFF)) & 0xFFFF0000u;
  weights[i] = __float2bfloat16_rn(__uint_as_float(rounded));
}

extern "C" __global__ void __launch_bounds__(64)
    awq_dequantise(const uint32_t* w, const __half* scales, const uint32_t* zeros, __half* y, int N) {
  constexpr int GROUP = 128, T = 64, V = 8;
  int k = blockIdx.y, n = (blockIdx.x * T + threadIdx.x) * V;
  if (n >= N) return;
  uint32_t word = w[(int64_t(k) * N + n) / V], zero = zeros[(int64_t(k / GROUP) * N + n) / V];
  Half8 scale = *reinterpret_cast<const Half8*>(scales + int64_t(k / GROUP) * N + n), out;
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    __half2 found = __hsub2(numbers(word, 4 * pair), numbers(zero, 4 * pair));
    __half2 made = __hmul2(found, __halves2half2(scale.v[2 * pair], scale.v[2 * pair + 1]));
    out.v[2 * pair] = __low2half(made), out.v[2 * pair + 1] = __high2half(made);
  }
  *reinterpret_cast<Half8*>(y + int64_t(k) * N + n) = out;
}

extern "C" __global__ void __launch_bounds__(64)
    nf4_dequantise(const uint32_t* w, const float* largest, const float* table, __nv_bfloat16* y, int B) {
  constexpr int T = 64, V = 8, BLOCK = 64;
  int i = (blockIdx.x * T + threadIdx.x) * V;
  if (i >= B * BLOCK) return;
  float scale = largest[i / BLOCK];
  uint32_t word = w[i / V];
  Bf8 out;
#pragma unroll
  for (int k = 0; k < V; ++k) out.v[k] = __float2bfloat16_rn(table[word >> 4 * (k ^ 1) & 15] * scale);
  *reinterpret_cast<Bf8*>(y + i) = out;
}

extern "C" __global__ void __launch_bounds__(128) quantize_q8_1(const float* x, uint32_t* y, int N) {
  constexpr int T = 128, LANES = 8;
  int row = blockIdx.y, first = 4 * (blockIdx.x * T + threadIdx.x), block = first / 32, lane = threadIdx.x % LANES;
  float4 v = {};
  if (first < N) v = *reinterpret_cast<const float4*>(x + int64_t(row) * N + first);
  float most = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))), total = v.x + v.y + (v.z + v.w);
#pragma unroll
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
    total += __shfl_xor_sync(~0u, total, offset);
  }
  float d = most / 127.0f;
  if (first >= N) return;
  auto code = [&](float number) { return d == 0.0f ? int8_t(0) : int8_t(roundf(number / d)); };
  char4 codes = make_char4(code(v.x), code(v.y), code(v.z), code(v.w));
  uint32_t* at = y + (int64_t(row) * (N / 32) + block) * (1 + LANES);
  at[1 + lane] = *reinterpret_cast<uint32_t*>(&codes);
  __half2 facts = __floats2half2_rn(d, total);
  if (lane == 0) at[0] = *reinterpret_cast<uint32_t*>(&facts);
}

extern "C" __global__ void __launch_bounds__(32)
    reshape_and_cache(const __half* key, const __half* value, const int* slots, __nv_fp8_e4m3* keys,
                      __nv_fp8_e4m3* values, float scale, int P) {
  constexpr int COLUMNS = 256, PAGE = 16, V = 8;
  int token = blockIdx.x, column = threadIdx.x * V, slot = slots[token];
  if (slot < 0 || slot >= P * PAGE) return;
  float inverse = 1.0f / scale;
  auto moved = [&](const __half* from, __nv_fp8_e4m3* to) {
    Half8 loaded = *reinterpret_cast<const Half8*>(from + int64_t(token) * COLUMNS + column);
    __nv_fp8x4_e4m3 stored[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      auto number = [&](int k) { return __half2float(loaded.v[4 * h + k]) * inverse; };
      stored[h] = __nv_fp8x4_e4m3(make_float4(number(0), number(1), number(2), number(3)));
    }
    *reinterpret_cast<uint2*>(to + int64_t(slot) * COLUMNS + column) = *reinterpret_cast<uint2*>(stored);
  };
  moved(key, keys);
  moved(value, values);
}

extern "C" __global__ void __launch_bounds__(128)
    swiglu_gradients(const __nv_bfloat16* gradient, const __nv_bfloat16* a, const __nv_bfloat16* b,
                     __nv_bfloat16* of_a, __nv_bfloat16* of_b, int N) {
  constexpr int BLOCK = 1024, V = 8;
  int column = blockIdx.x * BLOCK + threadIdx.x * V;
  if (column >= N) return;
  int64_t at = int64_t(blockIdx.y) * N + column;
  Bf8 given = *reinterpret_cast<const Bf8*>(gradient + at), left = *reinterpret_cast<const Bf8*>(a + at);
  Bf8 right = *reinterpret_cast<const Bf8*>(b + at), first, second;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    float dc = __bfloat162float(given.v[k]), x = __bfloat162float(left.v[k]), y = __bfloat162float(right.v[k]);
    float sigmoid = 1.0f / (1.0f + expf(-x)), silu = x * sigmoid;
    first.v[k] = __float2bfloat16_rn(dc * (silu * (1.0f - sigmoid) + sigmoid) * y);
    second.v[k] = __float2bfloat16_rn(dc * silu);
  }
  *reinterpret_cast<Bf8*>(of_a + at) = first;
  *reinterpret_cast<Bf8*>(of_b + at) = second;
}

extern "C" __global__ void __launch_bounds__(32)
    gated_delta_rule(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const float* g,
                     const float* beta, float scale, const float* first, __nv_bfloat16* o, float* last, int T) {
  constexpr int H = 4, K = 128, V = 128, BV = 8, E = K / 32;
  int lane = threadIdx.x, column = blockIdx.x * BV, head = blockIdx.y, batch = blockIdx.z;
  int64_t state = (int64_t(batch) * H + head) * K * V + column;
  float h[E][BV];
#pragma unroll
  for (int e = 0; e < E; ++e)
#pragma unroll
    for (int c = 0; c < BV; ++c) h[e][c] = first[state + int64_t(lane * E + e) * V + c];
  auto total = [](float x) {
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
  };
  for (int t = 0; t < T; ++t) {
    int64_t at = (int64_t(batch) * T + t) * H + head;
    float query[E], key[E], qq = 0, kk = 0, new_[BV];
    uint2 loaded_q = *reinterpret_cast<const uint2*>(q + at * K + lane * E);
    uint2 loaded_k = *reinterpret_cast<const uint2*>(k + at * K + lane * E);
    Bf8 loaded_v = *reinterpret_cast<const Bf8*>(v + at * V + column);
#pragma unroll
    for (int e = 0; e < E; ++e) {
      query[e] = __bfloat162float(reinterpret_cast<__nv_bfloat16*>(&loaded_q)[e]);
      key[e] = __bfloat162float(reinterpret_cast<__nv_bfloat16*>(&loaded_k)[e]);
      qq += query[e] * query[e], kk += key[e] * key[e];
    }
    float of_q = rsqrtf(total(qq) + 1e-6f), of_k = rsqrtf(total(kk) + 1e-6f), fade = expf(g[at]), by = beta[at];
#pragma unroll
    for (int e = 0; e < E; ++e) query[e] = query[e] * of_q * scale, key[e] *= of_k;
#pragma unroll
    for (int c = 0; c < BV; ++c) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < E; ++e) h[e][c] *= fade, sum += h[e][c] * key[e];
      new_[c] = (__bfloat162float(loaded_v.v[c]) - total(sum)) * by;
    }
    Bf8 made;
#pragma unroll
    for (int c = 0; c < BV; ++c) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < E; ++e) h[e][c] += key[e] * new_[c], sum += h[e][c] * query[e];
      made.v[c] = __float2bfloat16_rn(total(sum));
    }
    if (lane == 0) *reinterpret_cast<Bf8*>(o + at * V + column) = made;
  }
#pragma unroll
  for (int e = 0; e < E; ++e)
#pragma unroll
    for (int c = 0; c < BV; ++c) last[state + int64_t(lane * E + e) * V + c] = h[e][c];
}

extern "C" __global__ void __launch_bounds__(128)
    causal_conv1d(const __nv_bfloat16* x, const __nv_bfloat16* weight, const __nv_bfloat16* bias,
                  const __nv_bfloat16* before, __nv_bfloat16* y, int D, int L) {
  constexpr int TAPS = 4, V = 8;
  int channel = blockIdx.y, batch = blockIdx.z, t = (blockIdx.x * 128 + threadIdx.x) * V;
  if (t >= L) return;
  int64_t row = int64_t(batch) * D + channel;
  uint2 taps = *reinterpret_cast<const uint2*>(weight + channel * TAPS);
  float tap[TAPS], step[TAPS - 1 + V], start = __bfloat162float(bias[channel]);
#pragma unroll
  for (int k = 0; k < TAPS; ++k) tap[k] = __bfloat162float(reinterpret_cast<__nv_bfloat16*>(&taps)[k]);
  if (t > 0) {
    uint2 loaded = *reinterpret_cast<const uint2*>(x + row * L + t - TAPS);
#pragma unroll
    for (int k = 0; k < TAPS - 1; ++k) step[k] = __bfloat162float(reinterpret_cast<__nv_bfloat16*>(&loaded)[k + 1]);
  } else {
#pragma unroll
    for (int k = 0; k < TAPS - 1; ++k) step[k] = __bfloat162float(before[row * (TAPS - 1) + k]);
  }
  Bf8 here = *reinterpret_cast<const Bf8*>(x + row * L + t), made;
#pragma unroll
  for (int k = 0; k < V; ++k) step[TAPS - 1 + k] = __bfloat162float(here.v[k]);
#pragma unroll
  for (int k = 0; k < V; ++k) {
    float total = start;
#pragma unroll
    for (int j = 0; j < TAPS; ++j) total += tap[j] * step[k + j];
    made.v[k] = __float2bfloat16_rn(total / (1.0f + expf(-total)));
  }
  *reinterpret_cast<Bf8*>(y + row * L + t) = made;
}

extern "C" __global__ void __launch_bounds__(128)
    merge_attention(const __nv_bfloat16* prefix, const float* prefix_sums, const __nv_bfloat16* suffix,
                    const float* suffix_sums, __nv_bfloat16* merged, float* sums, int T, int H) {
  constexpr int D = 128, V = 8;
  int number = blockIdx.x * 128 + threadIdx.x, row = number / (D / V), chunk = number % (D / V);
  if (number >= T * H * (D / V)) return;
  int at = row % H * T + row / H;
  float p = prefix_sums[at], s = suffix_sums[at];
  p = p == INFINITY ? -INFINITY : p, s = s == INFINITY ? -INFINITY : s;
  float greatest = fmaxf(p, s), one = expf(p - greatest), other = expf(s - greatest), total = one + other;
  one /= total, other /= total;
  int64_t first = int64_t(row) * D + chunk * V;
  Bf8 left = *reinterpret_cast<const Bf8*>(prefix + first), right = *reinterpret_cast<const Bf8*>(suffix + first), made;
#pragma unroll
  for (int k = 0; k < V; ++k)
    made.v[k] = __float2bfloat16_rn(__bfloat162float(left.v[k]) * one + __bfloat162float(right.v[k]) * other);
  *reinterpret_cast<Bf8*>(merged + first) = made;
  if (chunk == 0) sums[at] = logf(total) + greatest;
}
