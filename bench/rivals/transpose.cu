// The transposes that a CUDA programmer writes, for -DELEMENT=float or -DELEMENT=uint16_t (f16 is only moved).
// The first three are the well-known steps: straight through, through shared memory, with a padded tile. The last two
// move 16 bytes at once, turn them in registers, and have the blocks go down the columns of tiles; the larger tile is
// for large matrices, the smaller for small ones. All take any sizes; the last two, multiples of 16 bytes.

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

// A tile of SIDE x SIDE elements as micro-tiles of WIDE x WIDE, one for each thread. In the shared tile, which is turned
// already, the groups of a row are exclusive-ored with the number of their group of rows, so that neither side meets a
// bank twice.
template <int SIDE>
__device__ void in_registers(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m, int n) {
  constexpr int WIDE = 16 / sizeof(ELEMENT), GROUPS = SIDE / WIDE, THREADS = GROUPS * GROUPS;
  struct alignas(16) Vector { ELEMENT lane[WIDE]; };
  __shared__ Vector tile[SIDE * GROUPS];
  int row = blockIdx.x * SIDE, column = blockIdx.y * SIDE, down = threadIdx.x / GROUPS, along = threadIdx.x % GROUPS;
  Vector line[WIDE];
  if (row + down * WIDE < m && column + along * WIDE < n)
#pragma unroll
    for (int i = 0; i < WIDE; ++i)
      line[i] = *reinterpret_cast<const Vector*>(&in[size_t(row + down * WIDE + i) * n + column + along * WIDE]);
#pragma unroll
  for (int k = 0; k < WIDE; ++k) {
    Vector turned;
#pragma unroll
    for (int i = 0; i < WIDE; ++i) turned.lane[i] = line[i].lane[k];
    tile[(along * WIDE + k) * GROUPS + (down ^ along % GROUPS)] = turned;
  }
  __syncthreads();
#pragma unroll
  for (int c = threadIdx.x / GROUPS; c < SIDE; c += THREADS / GROUPS)
    if (column + c < n && row + along * WIDE < m)
      *reinterpret_cast<Vector*>(&out[size_t(column + c) * m + row + along * WIDE]) =
          tile[c * GROUPS + (along ^ c / WIDE % GROUPS)];
}

extern "C" __global__ void transpose_vectorised(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m,
                                                int n) {
  in_registers<256 / sizeof(ELEMENT)>(in, out, m, n);
}

extern "C" __global__ void transpose_vectorised_small(const ELEMENT* __restrict__ in, ELEMENT* __restrict__ out, int m,
                                                      int n) {
  in_registers<128 / sizeof(ELEMENT)>(in, out, m, n);
}
