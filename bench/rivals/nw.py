"""Needleman-Wunsch by hand, in Rodinia's form: the same two kernels, a two-dimensional array in shared memory.

`pad` unused columns behind each row of the score buffer: 0 is Rodinia's own declaration, 1 the usual remedy. With a
`header` that declares the layout class `AntiDiag`, the buffer is an array in that layout, and nothing else changes.
"""


def shared_bytes(b: int, pad: int) -> int:
    """The shared memory of a block: scores, and substitution scores."""
    return 4 * ((b + 1) * (b + 1 + pad) + b * b)


def source(n: int, b: int, pad: int, header: str = "") -> str:
    """CUDA C++ for n letters, blocks of b, this padding or layout."""
    declared = f"""
  __shared__ int temp[{b + 1}][{b + 1 + pad}];
  __shared__ int ref[{b}][{b}];"""
    if shared_bytes(b, pad) > 48 * 1024:
        declared = f"""
  extern __shared__ int shared[];
  int (*temp)[{b + 1 + pad}] = (int (*)[{b + 1 + pad}])shared;
  int (*ref)[{b}] = (int (*)[{b}])(shared + {(b + 1) * (b + 1 + pad)});"""
    if header:
        declared = (
            declared.replace("temp", "base")
            + f"""
  Arr2D<int, AntiDiag> temp(&base[0][0], AntiDiag({b + 1}));"""
        )
    return f"""{header}
__device__ __forceinline__ void tile(int *__restrict__ scores, const int *__restrict__ substitution, int penalty,
                                     int by, int bx) {{{declared}
  const int tx = threadIdx.x, width = {n + 1};
  const int corner = width * {b} * by + {b} * bx;
  for (int ty = 0; ty < {b}; ++ty) ref[ty][tx] = substitution[corner + width * (ty + 1) + tx + 1];
  if (tx == 0) temp[0][0] = scores[corner];
  temp[tx + 1][0] = scores[corner + width * (tx + 1)];
  temp[0][tx + 1] = scores[corner + tx + 1];
  __syncthreads();
  for (int m = 0; m < {b}; ++m) {{
    if (tx <= m) {{
      const int x = tx + 1, y = m - tx + 1;
      temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty);
    }}
    __syncthreads();
  }}
  for (int m = {b - 2}; m >= 0; --m) {{
    if (tx <= m) {{
      const int x = tx + {b} - m, y = {b} - tx;
      temp[y][x] = max(temp[y - 1][x - 1] + ref[y - 1][x - 1], max(temp[y][x - 1], temp[y - 1][x]) - penalty);
    }}
    __syncthreads();
  }}
  for (int ty = 0; ty < {b}; ++ty) scores[corner + width * (ty + 1) + tx + 1] = temp[ty + 1][tx + 1];
}}
extern "C" __global__ void nw_growing(int *scores, const int *substitution, int penalty, int diagonal) {{
  tile(scores, substitution, penalty, diagonal - blockIdx.x, blockIdx.x);
}}
extern "C" __global__ void nw_shrinking(int *scores, const int *substitution, int penalty, int diagonal) {{
  const int by = {n // b - 1} - blockIdx.x;
  tile(scores, substitution, penalty, by, diagonal - by);
}}
"""
