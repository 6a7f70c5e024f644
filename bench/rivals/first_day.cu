// The kernels of examples/first_day in plain CUDA C++, a namespace for each file: the same algorithm, blocks, sizes and
// masks. bench/first_day.py compares their lines with those of the examples.

#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

// Shared by several kernels; counted for each that uses them.

template <typename Op>
__device__ float block_reduce(float x, Op op) {
  __shared__ float parts[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) x = op(x, __shfl_xor_sync(~0u, x, offset));
  __syncthreads();  // parts may still be read by a previous call
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = parts[0];
  for (int w = 1; w < warps; ++w) x = op(x, parts[w]);
  return x;
}

__device__ float block_sum(float x) {
  return block_reduce(x, [](float a, float b) { return a + b; });
}

__device__ float block_max(float x) {
  return block_reduce(x, [](float a, float b) { return fmaxf(a, b); });
}

template <typename T>
__device__ T warp_scan(T x) {
  for (int offset = 1; offset < 32; offset *= 2) {
    T left = __shfl_up_sync(~0u, x, offset);
    if (threadIdx.x % 32 >= offset) x += left;
  }
  return x;
}

namespace axpy_f16 {

constexpr int kThreads = 256;

__global__ void axpy(__half a, const __half* __restrict__ x, __half* __restrict__ y, int n) {
  int i = 8 * (blockIdx.x * kThreads + threadIdx.x);
  if (i >= n) return;
  uint4 xs = *reinterpret_cast<const uint4*>(x + i);
  uint4 ys = *reinterpret_cast<const uint4*>(y + i);
  const __half2* x_pairs = reinterpret_cast<const __half2*>(&xs);
  __half2* y_pairs = reinterpret_cast<__half2*>(&ys);
  for (int k = 0; k < 4; ++k) y_pairs[k] = __hfma2(x_pairs[k], __half2half2(a), y_pairs[k]);
  *reinterpret_cast<uint4*>(y + i) = ys;
}

void launch(__half a, const __half* x, __half* y, int n, cudaStream_t stream) {
  int blocks = (n + 8 * kThreads - 1) / (8 * kThreads);
  axpy<<<blocks, kThreads, 0, stream>>>(a, x, y, n);
}

}  // namespace axpy_f16

namespace big_tile {

constexpr int kTile = 128, kM = 2, kN = 3;

__global__ void transpose(const float* __restrict__ x, float* __restrict__ y) {
  extern __shared__ float tile[];
  int tx = threadIdx.x, ty = threadIdx.y;
  const float* source = x + blockIdx.y * kTile * (kN * kTile) + blockIdx.x * kTile;
  float* target = y + blockIdx.x * kTile * (kM * kTile) + blockIdx.y * kTile;
  for (int i = ty; i < kTile; i += 16) {
    for (int j = tx; j < kTile; j += 32) tile[i * kTile + (j ^ i)] = source[i * (kN * kTile) + j];
  }
  __syncthreads();
  for (int i = ty; i < kTile; i += 16) {
    for (int j = tx; j < kTile; j += 32) target[i * (kM * kTile) + j] = tile[j * kTile + (i ^ j)];
  }
}

void launch(const float* x, float* y, cudaStream_t stream) {
  int bytes = kTile * kTile * sizeof(float);
  cudaFuncSetAttribute(transpose, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  transpose<<<dim3(kN, kM), dim3(32, 16), bytes, stream>>>(x, y);
}

}  // namespace big_tile

namespace bitonic_sort {

constexpr int kN = 1024;

__global__ void sort(const float* __restrict__ x, float* __restrict__ y) {
  __shared__ float tile[kN];
  int t = threadIdx.x;
  size_t row = size_t(blockIdx.x) * kN;
  for (int i = t; i < kN; i += kN / 2) tile[i] = x[row + i];
  for (int size = 2; size <= kN; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      int low = 2 * t - t % distance;
      float a = tile[low], b = tile[low + distance];
      bool up = low / size % 2 == 0;
      tile[low] = up ? fminf(a, b) : fmaxf(a, b);
      tile[low + distance] = up ? fmaxf(a, b) : fminf(a, b);
    }
  }
  __syncthreads();
  for (int i = t; i < kN; i += kN / 2) y[row + i] = tile[i];
}

void launch(const float* x, float* y, int m, cudaStream_t stream) { sort<<<m, kN / 2, 0, stream>>>(x, y); }

}  // namespace bitonic_sort

namespace conv2d {

constexpr int kImages = 2, kC = 3, kK = 4;

__global__ void conv2d(const float* __restrict__ x, const float* __restrict__ filters, float* __restrict__ y, int h,
                       int w) {
  int n = blockIdx.z / kK, k = blockIdx.z % kK;
  int i = blockIdx.y * 4 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
  if (i >= h || j >= w) return;
  float total = 0;
  for (int c = 0; c < kC; ++c) {
    const float* channel = x + size_t(n * kC + c) * h * w;
    for (int di = 0; di < 3; ++di) {
      for (int dj = 0; dj < 3; ++dj) {
        int p = i + di - 1, q = j + dj - 1;
        if (p >= 0 && p < h && q >= 0 && q < w) {
          total += channel[size_t(p) * w + q] * filters[((k * kC + c) * 3 + di) * 3 + dj];
        }
      }
    }
  }
  y[(size_t(n * kK + k) * h + i) * w + j] = total;
}

void launch(const float* x, const float* filters, float* y, int h, int w, cudaStream_t stream) {
  dim3 grid((w + 31) / 32, (h + 3) / 4, kImages * kK);
  conv2d<<<grid, dim3(32, 4), 0, stream>>>(x, filters, y, h, w);
}

}  // namespace conv2d

namespace csr_matvec {

constexpr int kWarps = 8;

__global__ void csr_matvec(const int* __restrict__ rows, const int* __restrict__ columns,
                           const float* __restrict__ values, const float* __restrict__ x, float* __restrict__ y,
                           int m) {
  int lane = threadIdx.x, row = blockIdx.x * kWarps + threadIdx.y;
  if (row >= m) return;
  float total = 0;
  for (int e = rows[row] + lane; e < rows[row + 1]; e += 32) total += values[e] * x[columns[e]];
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  if (lane == 0) y[row] = total;
}

void launch(const int* rows, const int* columns, const float* values, const float* x, float* y, int m,
            cudaStream_t stream) {
  int blocks = (m + kWarps - 1) / kWarps;
  csr_matvec<<<blocks, dim3(32, kWarps), 0, stream>>>(rows, columns, values, x, y, m);
}

}  // namespace csr_matvec

namespace embedding {

constexpr int kV = 1000, kD = 256;

__global__ void embed(const uint32_t* __restrict__ token, const __half* __restrict__ table, __half* __restrict__ y,
                      int n) {
  int row = blockIdx.x * 4 + threadIdx.y;
  if (row >= n) return;
  uint32_t word = token[row];
  uint4 part = make_uint4(0, 0, 0, 0);
  if (word < kV) part = reinterpret_cast<const uint4*>(table + size_t(word) * kD)[threadIdx.x];
  reinterpret_cast<uint4*>(y + size_t(row) * kD)[threadIdx.x] = part;
}

void launch(const uint32_t* token, const __half* table, __half* y, int n, cudaStream_t stream) {
  embed<<<(n + 3) / 4, dim3(kD / 8, 4), 0, stream>>>(token, table, y, n);
}

}  // namespace embedding

namespace embedding_in_range {

__global__ void embedding(const int* __restrict__ tokens, const float* __restrict__ table, float* __restrict__ y,
                          int d) {
  const float* source = table + size_t(tokens[blockIdx.x]) * d;
  float* target = y + size_t(blockIdx.x) * d;
  for (int j = threadIdx.x * 4; j < d; j += 512) {
    *reinterpret_cast<float4*>(target + j) = *reinterpret_cast<const float4*>(source + j);
  }
}

void launch(const int* tokens, const float* table, float* y, int n, int d, cudaStream_t stream) {
  embedding<<<n, 128, 0, stream>>>(tokens, table, y, d);
}

}  // namespace embedding_in_range

namespace flash_attention {

constexpr int kHeads = 2, kS = 128, kD = 64, kTile = 64;
constexpr float kScale = 0.125f * 1.44269504f;  // kD^-0.5, and log2(e): exp(x) = exp2(x log2(e))

__device__ void load8(const __half* source, float* target) {
  uint4 packed = *reinterpret_cast<const uint4*>(source);
  const __half2* pairs = reinterpret_cast<const __half2*>(&packed);
  for (int i = 0; i < 4; ++i) {
    float2 pair = __half22float2(pairs[i]);
    target[2 * i] = pair.x;
    target[2 * i + 1] = pair.y;
  }
}

__global__ void attention(const __half* __restrict__ q, const __half* __restrict__ k, const __half* __restrict__ v,
                          __half* __restrict__ o) {
  __shared__ __align__(16) __half keys[kTile][kD], values[kTile][kD];
  int t = threadIdx.x, row = blockIdx.x * kTile + t, head = blockIdx.y * kS * kD;
  float query[kD], out[kD] = {}, part[8], best = -1e30f, total = 0;
#pragma unroll
  for (int d = 0; d < kD; d += 8) load8(q + head + row * kD + d, query + d);
#pragma unroll
  for (int d = 0; d < kD; ++d) query[d] *= kScale;
  for (int j = 0; j <= blockIdx.x; ++j) {
    for (int d = 0; d < kD; d += 8) {
      int at = head + (j * kTile + t) * kD + d;
      *reinterpret_cast<uint4*>(&keys[t][d]) = *reinterpret_cast<const uint4*>(k + at);
      *reinterpret_cast<uint4*>(&values[t][d]) = *reinterpret_cast<const uint4*>(v + at);
    }
    __syncthreads();
    for (int i = 0; i < kTile && j * kTile + i <= row; ++i) {
      float score = 0;
#pragma unroll
      for (int d = 0; d < kD; d += 8) {
        load8(&keys[i][d], part);
        for (int e = 0; e < 8; ++e) score += query[d + e] * part[e];
      }
      float top = fmaxf(best, score), old = exp2f(best - top), weight = exp2f(score - top);
#pragma unroll
      for (int d = 0; d < kD; d += 8) {
        load8(&values[i][d], part);
        for (int e = 0; e < 8; ++e) out[d + e] = out[d + e] * old + part[e] * weight;
      }
      total = total * old + weight;
      best = top;
    }
    __syncthreads();
  }
#pragma unroll
  for (int d = 0; d < kD; d += 2) {
    __half2 pair = __floats2half2_rn(out[d] / total, out[d + 1] / total);
    *reinterpret_cast<__half2*>(o + head + row * kD + d) = pair;
  }
}

void launch(const __half* q, const __half* k, const __half* v, __half* o, cudaStream_t stream) {
  attention<<<dim3(kS / kTile, kHeads), kTile, 0, stream>>>(q, k, v, o);
}

}  // namespace flash_attention

namespace grid_sum {

constexpr int kThreads = 256, kBlocks = 64;

__global__ void grid_sum(const float* __restrict__ x, float* __restrict__ y, int n) {
  float total = 0;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += kBlocks * kThreads) total += x[i];
  total = block_sum(total);
  if (threadIdx.x == 0) atomicAdd(y, total);
}

void launch(const float* x, float* y, int n, cudaStream_t stream) {
  grid_sum<<<kBlocks, kThreads, 0, stream>>>(x, y, n);
}

}  // namespace grid_sum

namespace histogram {

constexpr int kThreads = 256, kBlocks = 32;

__global__ void histogram(const uint8_t* __restrict__ x, uint32_t* __restrict__ counts, int n) {
  __shared__ uint32_t tile[256];
  int t = threadIdx.x;
  tile[t] = 0;
  __syncthreads();
  for (int i = blockIdx.x * kThreads + t; i < n; i += kBlocks * kThreads) atomicAdd(&tile[x[i]], 1);
  __syncthreads();
  atomicAdd(&counts[t], tile[t]);
}

void launch(const uint8_t* x, uint32_t* counts, int n, cudaStream_t stream) {
  histogram<<<kBlocks, kThreads, 0, stream>>>(x, counts, n);
}

}  // namespace histogram

namespace layer_norm {

constexpr int kThreads = 128, kKept = 8;

__global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ weight,
                           const float* __restrict__ bias, float* __restrict__ y, int n) {
  size_t row = size_t(blockIdx.x) * n;
  float kept[kKept], total = 0, squares = 0;
  for (int k = 0; k < kKept; ++k) {
    int j = k * kThreads + threadIdx.x;
    kept[k] = j < n ? x[row + j] : 0.0f;
    total += kept[k];
  }
  float mean = block_sum(total) / n;
  for (int k = 0; k < kKept; ++k) {
    kept[k] = k * kThreads + threadIdx.x < n ? kept[k] - mean : 0.0f;
    squares += kept[k] * kept[k];
  }
  float scale = rsqrtf(block_sum(squares) / n + 1e-5f);
  for (int k = 0; k < kKept; ++k) {
    int j = k * kThreads + threadIdx.x;
    if (j < n) y[row + j] = kept[k] * scale * weight[j] + bias[j];
  }
}

void launch(const float* x, const float* weight, const float* bias, float* y, int m, int n, cudaStream_t stream) {
  layer_norm<<<m, kThreads, 0, stream>>>(x, weight, bias, y, n);
}

}  // namespace layer_norm

namespace look_back_scan {

constexpr int kThreads = 256, kRows = 4, kTile = 4 * kRows * kThreads;  // a row: 128 elements of a warp, four a lane
constexpr uint64_t kSumOfBlock = 1ull << 32, kSumUpToEnd = 2ull << 32;

__global__ void scan(const uint32_t* __restrict__ x, uint32_t* __restrict__ y, uint64_t* words, int n) {
  __shared__ uint32_t parts[kThreads / 32], before;
  __align__(16) uint32_t rows[kRows][4];
  int b = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int first = b * kTile + warp * kRows * 128 + 4 * lane;
  bool whole = (b + 1) * kTile <= n;
  for (int k = 0; k < kRows; ++k) {
    int i = first + 128 * k;
    if (whole) {
      *reinterpret_cast<uint4*>(rows[k]) = *reinterpret_cast<const uint4*>(x + i);
    } else {
      for (int j = 0; j < 4; ++j) rows[k][j] = i + j < n ? x[i + j] : 0;
    }
  }
  uint32_t warp_total = 0, below = 0;
  for (int k = 0; k < kRows; ++k) {
    for (int j = 1; j < 4; ++j) rows[k][j] += rows[k][j - 1];
    uint32_t own = rows[k][3], up_to_lane = warp_scan(own);
    for (int j = 0; j < 4; ++j) rows[k][j] += warp_total + up_to_lane - own;
    warp_total += __shfl_sync(~0u, up_to_lane, 31);
  }
  if (lane == 31) parts[warp] = warp_total;
  __syncthreads();
  for (int w = 0; w < warp; ++w) below += parts[w];
  if (warp == kThreads / 32 - 1) {
    uint32_t part = below + warp_total, total = 0, complete = 0;
    if (lane == 0) __nv_atomic_store_n(words + b, kSumOfBlock | part, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    for (int end = b; complete == 0;) {
      int k = end - 1 - lane;
      uint64_t word = kSumUpToEnd;
      if (k >= 0) word = __nv_atomic_load_n(words + k, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
      if (!__all_sync(~0u, word != 0)) continue;
      complete = __ballot_sync(~0u, word >= kSumUpToEnd);
      bool needed = (complete & ((1u << lane) - 1)) == 0;
      total += __reduce_add_sync(~0u, needed ? uint32_t(word) : 0u);
      end -= 32;
    }
    if (lane == 0) {
      uint64_t word = kSumUpToEnd | (total + part);
      __nv_atomic_store_n(words + b, word, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
      before = total;
    }
  }
  __syncthreads();
  for (int k = 0; k < kRows; ++k) {
    int i = first + 128 * k;
    for (int j = 0; j < 4; ++j) rows[k][j] += before + below;
    if (whole) {
      *reinterpret_cast<uint4*>(y + i) = *reinterpret_cast<const uint4*>(rows[k]);
    } else {
      for (int j = 0; j < 4 && i + j < n; ++j) y[i + j] = rows[k][j];
    }
  }
}

void launch(const uint32_t* x, uint32_t* y, int n, cudaStream_t stream) {
  int blocks = (n + kTile - 1) / kTile;
  uint64_t* words;
  cudaMallocAsync(&words, blocks * sizeof(uint64_t), stream);
  cudaMemsetAsync(words, 0, blocks * sizeof(uint64_t), stream);
  scan<<<blocks, kThreads, 0, stream>>>(x, y, words, n);
  cudaFreeAsync(words, stream);
}

}  // namespace look_back_scan

namespace matmul_gelu {

using namespace nvcuda;

constexpr int kM = 128, kN = 128, kK = 128, kTile = 64, kDepth = 32, kWarpTile = kTile / 2;

__global__ void matmul(const __half* __restrict__ a, const __half* __restrict__ b, const float* __restrict__ bias,
                       __half* __restrict__ c) {
  __shared__ __align__(32) __half left[kTile][kDepth], right[kDepth][kTile];
  __shared__ __align__(32) float out[kTile][kTile + 8];
  int t = threadIdx.x, warp = t / 32, warp_row = warp / 2 * kWarpTile, warp_column = warp % 2 * kWarpTile;
  int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x[2];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y[2];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> total[2][2];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(total[i][j], 0);
  }
  for (int k = 0; k < kK; k += kDepth) {
    __syncthreads();
    for (int e = 8 * t; e < kTile * kDepth; e += 8 * 128) {
      int i = e / kDepth, j = e % kDepth;
      *reinterpret_cast<uint4*>(&left[i][j]) = *reinterpret_cast<const uint4*>(a + (row + i) * kK + k + j);
    }
    for (int e = 8 * t; e < kDepth * kTile; e += 8 * 128) {
      int i = e / kTile, j = e % kTile;
      *reinterpret_cast<uint4*>(&right[i][j]) = *reinterpret_cast<const uint4*>(b + (k + i) * kN + column + j);
    }
    __syncthreads();
    for (int d = 0; d < kDepth; d += 16) {
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(x[i], &left[warp_row + 16 * i][d], kDepth);
        wmma::load_matrix_sync(y[i], &right[d][warp_column + 16 * i], kTile);
      }
      for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) wmma::mma_sync(total[i][j], x[i], y[j], total[i][j]);
      }
    }
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      float* corner = &out[warp_row + 16 * i][warp_column + 16 * j];
      wmma::store_matrix_sync(corner, total[i][j], kTile + 8, wmma::mem_row_major);
    }
  }
  __syncthreads();
  for (int e = 4 * t; e < kTile * kTile; e += 4 * 128) {
    int i = e / kTile, j = e % kTile;
    __half packed[4];
    for (int f = 0; f < 4; ++f) {
      float v = out[i][j + f] + bias[column + j + f];
      packed[f] = __float2half(v * 0.5f * (1 + erff(v * 0.70710678f)));
    }
    *reinterpret_cast<uint2*>(c + (row + i) * kN + column + j) = *reinterpret_cast<const uint2*>(packed);
  }
}

void launch(const __half* a, const __half* b, const float* bias, __half* c, cudaStream_t stream) {
  matmul<<<dim3(kN / kTile, kM / kTile), 128, 0, stream>>>(a, b, bias, c);
}

}  // namespace matmul_gelu

namespace matvec {

constexpr int kWarps = 8;

__global__ void matvec(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int m, int n) {
  int lane = threadIdx.x, row = blockIdx.x * kWarps + threadIdx.y;
  if (row >= m) return;
  float total = 0;
  for (int k = lane; k < n; k += 32) total += a[size_t(row) * n + k] * x[k];
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  if (lane == 0) y[row] = total;
}

void launch(const float* a, const float* x, float* y, int m, int n, cudaStream_t stream) {
  int blocks = (m + kWarps - 1) / kWarps;
  matvec<<<blocks, dim3(32, kWarps), 0, stream>>>(a, x, y, m, n);
}

}  // namespace matvec

namespace morton_matmul {

constexpr int kN = 64, kTile = 16;

__device__ int spread(int x) {  // puts a zero above each of the lowest 8 bits
  x = (x | x << 4) & 0x0f0f;
  x = (x | x << 2) & 0x3333;
  return (x | x << 1) & 0x5555;
}

__device__ int morton(int i, int j) { return spread(i) << 1 | spread(j); }

__global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * kTile + ty, column = blockIdx.x * kTile + tx;
  float total = 0;
  for (int k = 0; k < kN; k += kTile) {
    left[ty][tx] = a[morton(row, k + tx)];
    right[ty][tx] = b[morton(k + ty, column)];
    __syncthreads();
    for (int d = 0; d < kTile; ++d) total += left[ty][d] * right[d][tx];
    __syncthreads();
  }
  c[morton(row, column)] = total;
}

void launch(const float* a, const float* b, float* c, cudaStream_t stream) {
  matmul<<<dim3(kN / kTile, kN / kTile), dim3(kTile, kTile), 0, stream>>>(a, b, c);
}

}  // namespace morton_matmul

namespace nchw_to_nhwc {

constexpr int kImages = 3, kTile = 32;

__global__ void to_nhwc(const __half* __restrict__ x, __half* __restrict__ y, int channels, int pixels) {
  __shared__ __half tile[kTile][kTile];
  int tx = threadIdx.x, ty = threadIdx.y, c = blockIdx.y * kTile, p = blockIdx.x * kTile;
  size_t image = size_t(blockIdx.z) * channels * pixels;
  for (int r = ty; r < kTile; r += 8) {
    if (c + r < channels && p + tx < pixels) tile[r][tx ^ r] = x[image + size_t(c + r) * pixels + p + tx];
  }
  __syncthreads();
  for (int r = ty; r < kTile; r += 8) {
    if (p + r < pixels && c + tx < channels) y[image + size_t(p + r) * channels + c + tx] = tile[tx][r ^ tx];
  }
}

void launch(const __half* x, __half* y, int channels, int pixels, cudaStream_t stream) {
  dim3 grid((pixels + kTile - 1) / kTile, (channels + kTile - 1) / kTile, kImages);
  to_nhwc<<<grid, dim3(kTile, 8), 0, stream>>>(x, y, channels, pixels);
}

}  // namespace nchw_to_nhwc

namespace persistent_matmul {

using namespace nvcuda;

constexpr int kM = 192, kN = 192, kK = 256, kTile = 64, kDepth = 32, kWarpTile = kTile / 2, kBlocks = 4;

__global__ void matmul(const __half* __restrict__ a, const __half* __restrict__ b, __half* __restrict__ c) {
  __shared__ __align__(32) __half left[kTile][kDepth], right[kDepth][kTile], out[kTile][kTile];
  int t = threadIdx.x, warp = t / 32, warp_row = warp / 2 * kWarpTile, warp_column = warp % 2 * kWarpTile;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> x[2];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> y[2];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> total[2][2];
  wmma::fragment<wmma::accumulator, 16, 16, 16, __half> rounded;
  for (int tile = blockIdx.x; tile < (kM / kTile) * (kN / kTile); tile += kBlocks) {
    int row = tile / (kN / kTile) * kTile, column = tile % (kN / kTile) * kTile;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) wmma::fill_fragment(total[i][j], 0);
    }
    for (int k = 0; k < kK; k += kDepth) {
      __syncthreads();
      for (int e = 8 * t; e < kTile * kDepth; e += 8 * 128) {
        int i = e / kDepth, j = e % kDepth;
        *reinterpret_cast<uint4*>(&left[i][j]) = *reinterpret_cast<const uint4*>(a + (row + i) * kK + k + j);
      }
      for (int e = 8 * t; e < kDepth * kTile; e += 8 * 128) {
        int i = e / kTile, j = e % kTile;
        *reinterpret_cast<uint4*>(&right[i][j]) = *reinterpret_cast<const uint4*>(b + (k + i) * kN + column + j);
      }
      __syncthreads();
      for (int d = 0; d < kDepth; d += 16) {
        for (int i = 0; i < 2; ++i) {
          wmma::load_matrix_sync(x[i], &left[warp_row + 16 * i][d], kDepth);
          wmma::load_matrix_sync(y[i], &right[d][warp_column + 16 * i], kTile);
        }
        for (int i = 0; i < 2; ++i) {
          for (int j = 0; j < 2; ++j) wmma::mma_sync(total[i][j], x[i], y[j], total[i][j]);
        }
      }
    }
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        for (int e = 0; e < rounded.num_elements; ++e) rounded.x[e] = __float2half(total[i][j].x[e]);
        __half* corner = &out[warp_row + 16 * i][warp_column + 16 * j];
        wmma::store_matrix_sync(corner, rounded, kTile, wmma::mem_row_major);
      }
    }
    __syncthreads();
    for (int e = 8 * t; e < kTile * kTile; e += 8 * 128) {
      int i = e / kTile, j = e % kTile;
      *reinterpret_cast<uint4*>(c + (row + i) * kN + column + j) = *reinterpret_cast<const uint4*>(&out[i][j]);
    }
  }
}

void launch(const __half* a, const __half* b, __half* c, cudaStream_t stream) {
  matmul<<<kBlocks, 128, 0, stream>>>(a, b, c);
}

}  // namespace persistent_matmul

namespace quantise_int8 {

constexpr int kThreads = 128;

__global__ void quantise(const float* __restrict__ x, int8_t* __restrict__ q, float* __restrict__ scale, int n) {
  const float* source = x + size_t(blockIdx.x) * n;
  int8_t* target = q + size_t(blockIdx.x) * n;
  float largest = 1e-30f;
  for (int j = threadIdx.x; j < n; j += kThreads) largest = fmaxf(largest, fabsf(source[j]));
  float step = block_max(largest) / 127;
  for (int j = threadIdx.x; j < n; j += kThreads) target[j] = int8_t(rintf(source[j] / step));
  if (threadIdx.x == 0) scale[blockIdx.x] = step;
}

void launch(const float* x, int8_t* q, float* scale, int m, int n, cudaStream_t stream) {
  quantise<<<m, kThreads, 0, stream>>>(x, q, scale, n);
}

}  // namespace quantise_int8

namespace ragged_matmul {

constexpr int kTile = 16;

__global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n,
                       int depth) {
  __shared__ float left[kTile][kTile], right[kTile][kTile];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * kTile + ty, column = blockIdx.x * kTile + tx;
  float total = 0;
  for (int k = 0; k < depth; k += kTile) {
    left[ty][tx] = row < m && k + tx < depth ? a[size_t(row) * depth + k + tx] : 0.0f;
    right[ty][tx] = k + ty < depth && column < n ? b[size_t(k + ty) * n + column] : 0.0f;
    __syncthreads();
    for (int d = 0; d < kTile; ++d) total += left[ty][d] * right[d][tx];
    __syncthreads();
  }
  if (row < m && column < n) c[size_t(row) * n + column] = total;
}

void launch(const float* a, const float* b, float* c, int m, int n, int depth, cudaStream_t stream) {
  dim3 grid((n + kTile - 1) / kTile, (m + kTile - 1) / kTile);
  matmul<<<grid, dim3(kTile, kTile), 0, stream>>>(a, b, c, m, n, depth);
}

}  // namespace ragged_matmul

namespace rope {

constexpr int kHeads = 8, kD = 64;

__global__ void rope(const __half2* __restrict__ x, __half2* __restrict__ y) {
  int i = threadIdx.x, at = (blockIdx.x * kHeads + threadIdx.y) * (kD / 2) + i;
  float sine, cosine, angle = blockIdx.x * exp2f(i * (-2 * 13.2877124f / kD));  // log2(10000)
  sincosf(angle, &sine, &cosine);
  float2 v = __half22float2(x[at]);
  y[at] = __floats2half2_rn(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
}

void launch(const __half2* x, __half2* y, int s, cudaStream_t stream) {
  rope<<<s, dim3(kD / 2, kHeads), 0, stream>>>(x, y);
}

}  // namespace rope

namespace row_softmax {

constexpr int kThreads = 128, kKept = 8;

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int n) {
  size_t row = size_t(blockIdx.x) * n;
  float kept[kKept], largest = -INFINITY, total = 0;
  for (int k = 0; k < kKept; ++k) {
    int j = k * kThreads + threadIdx.x;
    kept[k] = j < n ? x[row + j] : -INFINITY;
    largest = fmaxf(largest, kept[k]);
  }
  float shift = block_max(largest);
  for (int k = 0; k < kKept; ++k) {
    kept[k] = expf(kept[k] - shift);
    total += kept[k];
  }
  float scale = 1 / block_sum(total);
  for (int k = 0; k < kKept; ++k) {
    int j = k * kThreads + threadIdx.x;
    if (j < n) y[row + j] = kept[k] * scale;
  }
}

void launch(const float* x, float* y, int m, int n, cudaStream_t stream) {
  softmax<<<m, kThreads, 0, stream>>>(x, y, n);
}

}  // namespace row_softmax

namespace stencil {

__global__ void stencil(const float* __restrict__ x, float* __restrict__ y, int h, int w) {
  int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 32 + threadIdx.x;
  if (i >= h || j >= w) return;
  const float* row = x + size_t(i) * w;
  float up = x[size_t(max(i - 1, 0)) * w + j], down = x[size_t(min(i + 1, h - 1)) * w + j];
  float left = row[max(j - 1, 0)], right = row[min(j + 1, w - 1)];
  y[size_t(i) * w + j] = up + down + left + right - 4 * row[j];
}

void launch(const float* x, float* y, int h, int w, cudaStream_t stream) {
  dim3 grid((w + 31) / 32, (h + 7) / 8);
  stencil<<<grid, dim3(32, 8), 0, stream>>>(x, y, h, w);
}

}  // namespace stencil

namespace three_pass_scan {

constexpr int kThreads = 512;

__device__ void load_four(const float* x, int i, int n, float* four) {
  if (i + 4 <= n) {
    *reinterpret_cast<float4*>(four) = *reinterpret_cast<const float4*>(x + i);
  } else {
    for (int k = 0; k < 4; ++k) four[k] = i + k < n ? x[i + k] : 0.0f;
  }
}

__device__ float sum_before(float x) {  // of the threads before this one in the block
  __shared__ float parts[kThreads / 32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float up_to_lane = warp_scan(x), before = __shfl_up_sync(~0u, up_to_lane, 1);
  if (lane == 0) before = 0;
  if (lane == 31) parts[warp] = up_to_lane;
  __syncthreads();
  for (int w = 0; w < warp; ++w) before += parts[w];
  return before;
}

__global__ void sum_blocks(const float* __restrict__ x, float* __restrict__ sums, int n) {
  __align__(16) float four[4];
  load_four(x, 4 * (blockIdx.x * kThreads + threadIdx.x), n, four);
  float total = block_sum(four[0] + four[1] + four[2] + four[3]);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void scan_sums(float* sums, int blocks) {
  int t = threadIdx.x;
  float before = sum_before(t < blocks ? sums[t] : 0.0f);
  if (t < blocks) sums[t] = before;
}

__global__ void scan_blocks(const float* __restrict__ x, float* __restrict__ y, const float* __restrict__ sums, int n) {
  __align__(16) float four[4];
  int i = 4 * (blockIdx.x * kThreads + threadIdx.x);
  load_four(x, i, n, four);
  for (int k = 1; k < 4; ++k) four[k] += four[k - 1];
  float shift = sums[blockIdx.x] + sum_before(four[3]);
  for (int k = 0; k < 4; ++k) four[k] += shift;
  if (i + 4 <= n) {
    *reinterpret_cast<float4*>(y + i) = *reinterpret_cast<const float4*>(four);
  } else {
    for (int k = 0; i + k < n; ++k) y[i + k] = four[k];
  }
}

void launch(const float* x, float* y, int n, cudaStream_t stream) {
  int blocks = (n + 4 * kThreads - 1) / (4 * kThreads);
  float* sums;
  cudaMallocAsync(&sums, blocks * sizeof(float), stream);
  sum_blocks<<<blocks, kThreads, 0, stream>>>(x, sums, n);
  scan_sums<<<1, kThreads, 0, stream>>>(sums, blocks);
  scan_blocks<<<blocks, kThreads, 0, stream>>>(x, y, sums, n);
  cudaFreeAsync(sums, stream);
}

}  // namespace three_pass_scan

namespace vector_add {

constexpr int kThreads = 256;

__global__ void add(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ z, int n) {
  int i = 4 * (blockIdx.x * kThreads + threadIdx.x);
  if (i + 4 <= n) {
    float4 a = *reinterpret_cast<const float4*>(x + i), b = *reinterpret_cast<const float4*>(y + i);
    *reinterpret_cast<float4*>(z + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
  } else {
    for (int j = i; j < n; ++j) z[j] = x[j] + y[j];
  }
}

void launch(const float* x, const float* y, float* z, int n, cudaStream_t stream) {
  int blocks = (n + 4 * kThreads - 1) / (4 * kThreads);
  add<<<blocks, kThreads, 0, stream>>>(x, y, z, n);
}

}  // namespace vector_add
