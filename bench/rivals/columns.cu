// Box means and plain matrix products by hand, for bench/columns.py. Macros:
//   ELEMENT, TOTAL the element type and the type of the sums
//   SIZE           of the box, odd
//   EXTENT         0: the sizes and the column's width are arguments (the thesis's listing 5); else a square problem
//   COLUMN         with EXTENT: the width of a column, 0 for row by row
#include <cuda_fp16.h>
#ifndef SIZE
#define SIZE 9
#endif
#ifndef EXTENT
#define EXTENT 0
#define COLUMN 0
#endif
#define R (SIZE / 2)

typedef ELEMENT T;
typedef TOTAL ACC;

__device__ __forceinline__ int clamped(int i, int n) { return min(max(i, 0), n - 1); }

__device__ __forceinline__ T mean_at(const T *__restrict__ in, int x, int y, int width, int height) {
  ACC sum = 0;
  if (x >= R && x + R < width && y >= R && y + R < height) {
    const T *from = in + (y - R) * width + (x - R);
#pragma unroll
    for (int dy = 0; dy < SIZE; dy++)
#pragma unroll
      for (int dx = 0; dx < SIZE; dx++) sum += (ACC)from[dy * width + dx];
  } else {
#pragma unroll
    for (int dy = -R; dy <= R; dy++)
#pragma unroll
      for (int dx = -R; dx <= R; dx++) sum += (ACC)in[clamped(y + dy, height) * width + clamped(x + dx, width)];
  }
  return (T)(sum * (ACC)(1.0 / (SIZE * SIZE)));
}

// The thread's element: naive, or column-based iteration as in listing 5.
__device__ __forceinline__ bool place(int width, int height, int col_w, int &x, int &y) {
  const int tid = blockIdx.x * blockDim.x + threadIdx.x;
  if (tid >= width * height) return false;
  if (col_w == 0) {
    x = tid % width;
    y = tid / width;
    return true;
  }
  const int col_size = height * col_w;
  const int col_id = tid / col_size, col_tid = tid % col_size, col_off = col_id * col_w;
  const int col_tw = min(width - col_off, col_w);
  x = col_tid % col_tw + col_off;
  y = col_tid / col_tw;
  return true;
}

__device__ __forceinline__ T dot_at(const T *__restrict__ a, const T *__restrict__ b, int x, int y, int width,
                                    int depth) {
  ACC sum = 0;
#pragma unroll 8
  for (int k = 0; k < depth; k++) sum += (ACC)a[y * depth + k] * (ACC)b[k * width + x];
  return (T)sum;
}

#if EXTENT == 0
extern "C" __global__ void stencil_naive(const T *__restrict__ in, T *__restrict__ out, int width, int height) {
  int x, y;
  if (place(width, height, 0, x, y)) out[y * width + x] = mean_at(in, x, y, width, height);
}

extern "C" __global__ void stencil_columns(const T *__restrict__ in, T *__restrict__ out, int width, int height,
                                           int col_w) {
  int x, y;
  if (place(width, height, col_w, x, y)) out[y * width + x] = mean_at(in, x, y, width, height);
}

extern "C" __global__ void stencil_blocks(const T *__restrict__ in, T *__restrict__ out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) out[y * width + x] = mean_at(in, x, y, width, height);
}

extern "C" __global__ void product_naive(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c,
                                         int width, int height, int depth) {
  int x, y;
  if (place(width, height, 0, x, y)) c[y * width + x] = dot_at(a, b, x, y, width, depth);
}

extern "C" __global__ void product_columns(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c,
                                           int width, int height, int depth, int col_w) {
  int x, y;
  if (place(width, height, col_w, x, y)) c[y * width + x] = dot_at(a, b, x, y, width, depth);
}

// A tile of 32 x 64 with its halo in shared memory; a thread goes down 8 elements of a column, 256 threads.
extern "C" __global__ void __launch_bounds__(256)
stencil_shared(const T *__restrict__ in, T *__restrict__ out, int width, int height) {
  const int H = 32, W = 64, DOWN = 8;
  __shared__ T tile[H + 2 * R][W + 2 * R];
  const int left = blockIdx.x * W, top = blockIdx.y * H;
  for (int i = threadIdx.x; i < (H + 2 * R) * (W + 2 * R); i += 256) {
    const int y = i / (W + 2 * R), x = i % (W + 2 * R);
    tile[y][x] = in[clamped(top + y - R, height) * width + clamped(left + x - R, width)];
  }
  __syncthreads();
  const int x = threadIdx.x % W, y = threadIdx.x / W * DOWN;
  ACC sums[DOWN] = {};
#pragma unroll
  for (int dy = 0; dy < DOWN + 2 * R; dy++) {
    ACC row = 0;
#pragma unroll
    for (int dx = 0; dx < SIZE; dx++) row += (ACC)tile[y + dy][x + dx];
#pragma unroll
    for (int p = 0; p < DOWN; p++)
      if (dy - p >= 0 && dy - p < SIZE) sums[p] += row;
  }
#pragma unroll
  for (int p = 0; p < DOWN; p++)
    if (top + y + p < height && left + x < width)
      out[(top + y + p) * width + left + x] = (T)(sums[p] * (ACC)(1.0 / (SIZE * SIZE)));
}

// DOWN outputs of a column in registers, with shared row sums.
template <int DOWN>
__device__ __forceinline__ void registers(const T *__restrict__ in, T *__restrict__ out, int width, int height) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = (blockIdx.y * blockDim.y + threadIdx.y) * DOWN;
  if (x >= width || y >= height) return;
  const bool inside = x >= R && x + R < width && y >= R && y + DOWN + R <= height;
  ACC sums[DOWN] = {};
#pragma unroll
  for (int dy = 0; dy < DOWN + 2 * R; dy++) {
    ACC row = 0;
    if (inside) {
      const T *from = in + (y + dy - R) * width + x - R;
#pragma unroll
      for (int dx = 0; dx < SIZE; dx++) row += (ACC)from[dx];
    } else {
#pragma unroll
      for (int dx = -R; dx <= R; dx++) row += (ACC)in[clamped(y + dy - R, height) * width + clamped(x + dx, width)];
    }
#pragma unroll
    for (int p = 0; p < DOWN; p++)
      if (dy - p >= 0 && dy - p < SIZE) sums[p] += row;
  }
#pragma unroll
  for (int p = 0; p < DOWN; p++)
    if (y + p < height) out[(y + p) * width + x] = (T)(sums[p] * (ACC)(1.0 / (SIZE * SIZE)));
}

// DOWN x 4 outputs in registers; the width is a multiple of four, and the radius at most four.
struct alignas(4 * sizeof(T)) Quad { T v[4]; };
template <int DOWN>
__device__ __forceinline__ void quads(const T *__restrict__ in, T *__restrict__ out, int width, int height) {
  const int x = (blockIdx.x * blockDim.x + threadIdx.x) * 4, y = (blockIdx.y * blockDim.y + threadIdx.y) * DOWN;
  if (x >= width || y >= height) return;
  const bool inside = x >= 4 && x + 8 <= width && y >= R && y + DOWN + R <= height;
  ACC sums[DOWN][4] = {};
#pragma unroll
  for (int dy = 0; dy < DOWN + 2 * R; dy++) {
    ACC v[12], row[4];
    if (inside) {
      const Quad *from = (const Quad *)(in + (y + dy - R) * width + x - 4);
#pragma unroll
      for (int q = 0; q < 3; q++) {
        const Quad four = from[q];
#pragma unroll
        for (int k = 0; k < 4; k++) v[4 * q + k] = (ACC)four.v[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < 12; k++)
        v[k] = (ACC)in[clamped(y + dy - R, height) * width + clamped(x + k - 4, width)];
    }
    row[0] = 0;
#pragma unroll
    for (int k = 4 - R; k <= 4 + R; k++) row[0] += v[k];
#pragma unroll
    for (int k = 1; k < 4; k++) {
      row[k] = 0;
#pragma unroll
      for (int i = 4 - R; i <= 4 + R; i++) row[k] += v[i + k];
    }
#pragma unroll
    for (int p = 0; p < DOWN; p++)
      if (dy - p >= 0 && dy - p < SIZE)
#pragma unroll
        for (int k = 0; k < 4; k++) sums[p][k] += row[k];
  }
#pragma unroll
  for (int p = 0; p < DOWN; p++)
    if (y + p < height) {
      Quad four;
#pragma unroll
      for (int k = 0; k < 4; k++) four.v[k] = (T)(sums[p][k] * (ACC)(1.0 / (SIZE * SIZE)));
      *(Quad *)(out + (y + p) * width + x) = four;
    }
}

#define DOWNWARD(P)                                                                                              \
  extern "C" __global__ void stencil_registers_##P(const T *__restrict__ in, T *__restrict__ out, int width,    \
                                                   int height) {                                                \
    registers<P>(in, out, width, height);                                                                       \
  }                                                                                                             \
  extern "C" __global__ void stencil_quads_##P(const T *__restrict__ in, T *__restrict__ out, int width,        \
                                               int height) {                                                    \
    quads<P>(in, out, width, height);                                                                           \
  }
DOWNWARD(4)
DOWNWARD(8)
DOWNWARD(16)

// Where and when each block of the naive stencil runs: its SM, and the clock at its start and its end.
extern "C" __global__ void stencil_placement(const T *__restrict__ in, T *__restrict__ out, int width, int height,
                                             long long *__restrict__ blocks) {
  unsigned long long start, end;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  int x, y;
  if (place(width, height, 0, x, y)) out[y * width + x] = mean_at(in, x, y, width, height);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
    blocks[3 * blockIdx.x] = sm;
    blocks[3 * blockIdx.x + 1] = (long long)start;
    blocks[3 * blockIdx.x + 2] = (long long)end;
  }
}
#else
extern "C" __global__ void stencil_constant(const T *__restrict__ in, T *__restrict__ out) {
  int x, y;
  if (place(EXTENT, EXTENT, COLUMN, x, y)) out[y * EXTENT + x] = mean_at(in, x, y, EXTENT, EXTENT);
}

extern "C" __global__ void product_constant(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c) {
  int x, y;
  if (place(EXTENT, EXTENT, COLUMN, x, y)) c[y * EXTENT + x] = dot_at(a, b, x, y, EXTENT, EXTENT);
}
#endif
