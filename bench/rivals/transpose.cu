// The transposes that a CUDA programmer writes, for -DELEMENT=float or -DELEMENT=uint16_t (f16 is only moved).
// The first three are the well-known steps: straight through, through shared memory, with a padded tile. The last moves
// 16 bytes at once and takes them apart in registers. All take any sizes; the last, multiples of 16 bytes.

#include <cstdint>

constexpr int TILE = 32, ROWS = 8;

extern "C" __global__ void transpose_naive(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m, int n) {
  int column = blockIdx.x * TILE + threadIdx.x;
  for (int row = blockIdx.y * TILE + threadIdx.y; row < min(m, (int(blockIdx.y) + 1) * TILE); row += ROWS)
    if (column < n) out[size_t(column) * m + row] = in[size_t(row) * n + column];
}

template <int PAD>
__device__ void through_shared(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m, int n) {
  __shared__ ELEMENT tile[TILE][TILE + PAD];
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE, tx = threadIdx.x, ty = threadIdx.y;
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (row + ty + r < m && column + tx < n) tile[ty + r][tx] = in[size_t(row + ty + r) * n + column + tx];
  __syncthreads();
#pragma unroll
  for (int r = 0; r < TILE; r += ROWS)
    if (column + ty + r < n && row + tx < m) out[size_t(column + ty + r) * m + row + tx] = tile[tx][ty + r];
}

extern "C" __global__ void transpose_shared(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m, int n) {
  through_shared<0>(in, out, m, n);
}

extern "C" __global__ void transpose_padded(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m, int n) {
  through_shared<1>(in, out, m, n);
}

// A tile of 128 bytes by as many rows; 8 threads of 16 bytes a row. The groups of a row are exclusive-ored with the
// number of their group of rows, so that neither side meets a bank twice.
extern "C" __global__ void transpose_vectorised(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m,
                                                int n) {
  constexpr int WIDE = 16 / sizeof(ELEMENT), SIDE = 8 * WIDE, STEP = 256 / 8;
  struct alignas(16) Vector { ELEMENT lane[WIDE]; };
  alignas(16) __shared__ ELEMENT tile[SIDE * SIDE];
  int row = blockIdx.y * SIDE, column = blockIdx.x * SIDE, group = threadIdx.x % 8, line = threadIdx.x / 8;
#pragma unroll
  for (int r = line; r < SIDE; r += STEP)
    if (row + r < m && column + group * WIDE < n)
      *reinterpret_cast<Vector*>(&tile[r * SIDE + (group ^ (r / WIDE % 8)) * WIDE]) =
          *reinterpret_cast<const Vector*>(&in[size_t(row + r) * n + column + group * WIDE]);
  __syncthreads();
#pragma unroll
  for (int c = line; c < SIDE; c += STEP)
    if (column + c < n && row + group * WIDE < m) {
      Vector v;
#pragma unroll
      for (int k = 0; k < WIDE; ++k)
        v.lane[k] = tile[(group * WIDE + k) * SIDE + ((c / WIDE) ^ group) * WIDE + c % WIDE];
      *reinterpret_cast<Vector*>(&out[size_t(column + c) * m + row + group * WIDE]) = v;
    }
}
