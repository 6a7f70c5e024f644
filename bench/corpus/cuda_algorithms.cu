// Textbook kernels, written from their descriptions: sorting networks, scans, histograms, stencils, sparse products,
// dynamic programming, hashing. Integer results and sums in a fixed order: they are equal on every device, bit by bit.
#include <cstdint>
#define K extern "C" __global__ void

K saxpy(const float *x, float *y, float a, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = fmaf(a, x[i], y[i]);
}

K transpose(const float *x, float *y, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x;
  for (int r = threadIdx.y; r < 32; r += blockDim.y)
    if (blockIdx.y * 32 + r < rows && c < columns) tile[r][threadIdx.x] = x[(blockIdx.y * 32 + r) * columns + c];
  __syncthreads();
  int r = blockIdx.y * 32 + threadIdx.x;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (blockIdx.x * 32 + k < columns && r < rows) y[(blockIdx.x * 32 + k) * rows + r] = tile[threadIdx.x][k];
}

K product(const float *a, const float *b, float *c, int n) {
  __shared__ float s[16][16], t[16][16];
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    s[threadIdx.y][threadIdx.x] = a[i * n + k + threadIdx.x];
    t[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + j];
    __syncthreads();
    for (int q = 0; q < 16; q++) sum = fmaf(s[threadIdx.y][q], t[q][threadIdx.x], sum);
    __syncthreads();
  }
  c[i * n + j] = sum;
}

K tree_sum(const float *x, float *out, int n) {
  __shared__ float s[256];
  int t = threadIdx.x, i = blockIdx.x * 512 + t;
  s[t] = (i < n ? x[i] : 0) + (i + 256 < n ? x[i + 256] : 0);
  __syncthreads();
  for (int d = 128; d; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (!t) out[blockIdx.x] = s[0];
}

K warp_sum(const int *x, int *out, int n) {
  __shared__ int s[8];
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * n + i];
  for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (int w = 0; w < blockDim.x / 32; w++) total += s[w];
    out[blockIdx.x] = total;
  }
}

K hillis_steele(const int *x, int *out, int n) {
  __shared__ int s[2][256];
  int t = threadIdx.x, now = 0;
  s[0][t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int d = 1; d < 256; d *= 2) {
    s[1 - now][t] = t >= d ? s[now][t] + s[now][t - d] : s[now][t];
    now = 1 - now;
    __syncthreads();
  }
  if (t < n) out[t] = s[now][t];
}

K blelloch(const int *x, int *out) {
  __shared__ int s[512];
  int t = threadIdx.x;
  s[2 * t] = x[2 * t];
  s[2 * t + 1] = x[2 * t + 1];
  int step = 1;
  for (int d = 256; d; d >>= 1, step *= 2) {
    __syncthreads();
    if (t < d) s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
  }
  if (!t) s[511] = 0;
  for (int d = 1; d < 512; d *= 2) {
    step >>= 1;
    __syncthreads();
    if (t < d) {
      int a = step * (2 * t + 1) - 1, b = step * (2 * t + 2) - 1, v = s[a];
      s[a] = s[b];
      s[b] += v;
    }
  }
  __syncthreads();
  out[2 * t] = s[2 * t];
  out[2 * t + 1] = s[2 * t + 1];
}

K bitonic(int *x) {
  __shared__ int s[256];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 256 + t];
  for (int k = 2; k <= 256; k *= 2)
    for (int j = k / 2; j; j /= 2) {
      __syncthreads();
      int p = t ^ j;
      if (p > t && (s[t] > s[p]) == !(t & k)) {
        int v = s[t];
        s[t] = s[p];
        s[p] = v;
      }
    }
  __syncthreads();
  x[blockIdx.x * 256 + t] = s[t];
}

K odd_even(int *x, int n) {
  int t = threadIdx.x;
  for (int round = 0; round < n; round++) {
    int i = 2 * t + (round & 1);
    if (i + 1 < n && x[i] > x[i + 1]) {
      int v = x[i];
      x[i] = x[i + 1];
      x[i + 1] = v;
    }
    __syncthreads();
  }
}

K histogram(const uint8_t *x, unsigned *out, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], s[i]);
}

K radix_ranks(const unsigned *x, unsigned *out, int bit) {
  __shared__ unsigned counts[8];
  int t = threadIdx.x, lane = t % 32, warp = t / 32;
  unsigned v = x[t], one = v >> bit & 1, votes = __ballot_sync(~0u, !one);
  if (!lane) counts[warp] = __popc(votes);
  __syncthreads();
  unsigned before = 0, zeros = 0;
  for (int w = 0; w < 8; w++) {
    if (w < warp) before += counts[w];
    zeros += counts[w];
  }
  unsigned rank = before + __popc(votes & ((1u << lane) - 1));
  out[one ? zeros + t - rank : rank] = v;
}

K stencil(const float *x, float *y, int n) {
  __shared__ float s[128 + 4];
  int i = blockIdx.x * 128 + threadIdx.x;
  s[threadIdx.x + 2] = i < n ? x[i] : 0;
  if (threadIdx.x < 2) {
    s[threadIdx.x] = i >= 2 ? x[i - 2] : 0;
    s[threadIdx.x + 130] = i + 128 < n ? x[i + 128] : 0;
  }
  __syncthreads();
  if (i < n)
    y[i] = 0.125f * s[threadIdx.x] + 0.25f * s[threadIdx.x + 1] + 0.5f * s[threadIdx.x + 2] + 0.25f * s[threadIdx.x + 3] +
           0.125f * s[threadIdx.x + 4];
}

K jacobi(const float *x, float *y, int h, int w) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < h - 1 && j > 0 && j < w - 1)
    y[i * w + j] = 0.25f * (x[(i - 1) * w + j] + x[(i + 1) * w + j] + x[i * w + j - 1] + x[i * w + j + 1]);
}

K life(const uint8_t *x, uint8_t *y, int n) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int a = -1; a <= 1; a++)
    for (int b = -1; b <= 1; b++)
      if (a || b) sum += x[(i + a + n) % n * n + (j + b + n) % n];
  y[i * n + j] = sum == 3 || (sum == 2 && x[i * n + j]);
}

K convolution(const float *x, const float *w, float *y, int n) {
  extern __shared__ float s[];
  int t = threadIdx.x, base = blockIdx.x * blockDim.x;
  for (int i = t; i < blockDim.x + 8; i += blockDim.x) s[i] = base + i < n + 8 ? x[base + i] : 0;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 9; k++) sum = fmaf(s[t + k], w[k], sum);
  if (base + t < n) y[base + t] = sum;
}

K sparse_rows(const int *starts, const int *columns, const float *values, const float *x, float *y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum = fmaf(values[i], x[columns[i]], sum);
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  if (!lane) y[row] = sum;
}

K edit_distance(const int *a, const int *b, int *out, int n) {
  __shared__ int s[3][129];
  int t = threadIdx.x, old = 0, last = 1, now = 2;
  for (int d = 0; d <= 2 * n; d++) {
    int i = t, j = d - t;
    if (i <= n && j >= 0 && j <= n) {
      int best;
      if (!i) best = j;
      else if (!j) best = i;
      else best = min(min(s[last][i - 1], s[last][i]) + 1, s[old][i - 1] + (a[i - 1] != b[j - 1]));
      s[now][i] = best;
      if (i == n && j == n) *out = best;
    }
    __syncthreads();
    int k = old;
    old = last;
    last = now;
    now = k;
  }
}

K floyd(int *d, int n, int k) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && j < n && i != k && j != k) d[i * n + j] = min(d[i * n + j], d[i * n + k] + d[k * n + j]);
}

K mandelbrot(int *out, int w, int h, int most) {
  int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  float cx = -2 + 3.0f / 64 * j, cy = -1 + 2.0f / 64 * i, x = 0, y = 0;
  int n = 0;
  while (n < most && __fadd_rn(__fmul_rn(x, x), __fmul_rn(y, y)) <= 4) {
    float z = __fadd_rn(__fsub_rn(__fmul_rn(x, x), __fmul_rn(y, y)), cx);
    y = __fadd_rn(__fmul_rn(__fmul_rn(2, x), y), cy);
    x = z;
    n++;
  }
  if (i < h && j < w) out[i * w + j] = n;
}

K random_bits(unsigned *out, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned c0 = i, c1 = 0, c2 = 0, c3 = 0, k0 = seed, k1 = 77;
  for (int round = 0; round < 10; round++) {
    unsigned h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0, h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  if (i < n) out[i] = c0 ^ c1 ^ c2 ^ c3;
}

K hashed(const unsigned *keys, unsigned *table, int n, int slots) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i], at = key * 2654435761u % slots;
  while (true) {
    unsigned seen = atomicCAS(&table[at], 0xFFFFFFFFu, key);
    if (seen == 0xFFFFFFFFu || seen == key) return;
    at = (at + 1) % slots;
  }
}

K crc32(const uint8_t *x, unsigned *out, int bytes) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned crc = 0xFFFFFFFFu;
  for (int k = 0; k < bytes; k++) {
    crc ^= x[i * bytes + k];
    for (int b = 0; b < 8; b++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  out[i] = ~crc;
}

K walsh(float *x) {
  __shared__ float s[512];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 512 + t];
  s[t + 256] = x[blockIdx.x * 512 + t + 256];
  for (int d = 256; d; d >>= 1) {
    __syncthreads();
    int i = t / d * 2 * d + t % d;
    float a = s[i], b = s[i + d];
    s[i] = a + b;
    s[i + d] = a - b;
  }
  __syncthreads();
  x[blockIdx.x * 512 + t] = s[t];
  x[blockIdx.x * 512 + t + 256] = s[t + 256];
}

K last_block(const int *x, int *partial, unsigned *count, int *out) {
  __shared__ int s[64];
  __shared__ bool last;
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  for (int d = 32; d; d >>= 1) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (!t) {
    partial[blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && !t) {
    int sum = 0;
    for (int b = 0; b < gridDim.x; b++) sum += ((volatile int *)partial)[b];
    *out = sum;
  }
}

K decoupled(const int *x, volatile int *sums, volatile int *flags, int *out) {
  __shared__ int s[128], before;
  int t = threadIdx.x, b = blockIdx.x;
  s[t] = x[b * 128 + t];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2) {
    int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (!t) {
    int sum = 0;
    if (b) {
      while (!flags[b - 1]) {}
      __threadfence();
      sum = sums[b - 1];
    }
    sums[b] = sum + s[127];
    __threadfence();
    flags[b] = 1;
    before = sum;
  }
  __syncthreads();
  out[b * 128 + t] = before + s[t];
}

K locked(int *lock, int *total) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int *)total += blockIdx.x + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}

K dot_half(const uint32_t *x, const uint32_t *y, float *out, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < words; k++) {
    uint32_t a = x[i * words + k], b = y[i * words + k];
    float p, q, r, s;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(p), "=f"(q) : "r"(a));
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(r), "=f"(s) : "r"(b));
    sum = fmaf(p, r, sum);
    sum = fmaf(q, s, sum);
  }
  out[i] = sum;
}

K dot_bytes(const int *x, const int *y, int *out, int words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int k = 0; k < words; k++) sum = __dp4a(x[i * words + k], y[i * words + k], sum);
  out[i] = sum;
}

K roundings(const float *x, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  out[i] = __fmaf_rd(v, v, 1e-8f);
  out[n + i] = __fmaf_ru(v, v, 1e-8f);
  out[2 * n + i] = __fmaf_rz(v, -v, 1e-8f);
  out[3 * n + i] = __fadd_ru(v, 1e-9f);
  out[4 * n + i] = __fmul_rd(v, 0.1f);
  out[5 * n + i] = __fdiv_rn(v, 3.0f);
  out[6 * n + i] = __fsqrt_rn(fabsf(v));
  out[7 * n + i] = __frcp_rn(v);
}

K doubles(const double *x, double *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = __dadd_rd(x[i], 1.0);
  out[n + i] = __dmul_ru(x[i], 0.1);
  out[2 * n + i] = __fma_rz(x[i], x[i], -1.0);
  out[3 * n + i] = __ddiv_rn(x[i], 3.0);
  out[4 * n + i] = __dsqrt_rn(fabs(x[i]));
}

K conversions(const float *x, int *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i] * 1000;
  out[i] = __float2int_rd(v);
  out[n + i] = __float2int_ru(v);
  out[2 * n + i] = __float2int_rn(v);
  out[3 * n + i] = __float2int_rz(v);
  out[4 * n + i] = __float_as_int(__int2float_rd(i * 123456789));
  out[5 * n + i] = __float_as_int(__uint2float_ru(i * 123456789u));
  out[6 * n + i] = (int)__float2ll_rn(v * 1e6f);
  out[7 * n + i] = (signed char)v + (short)v + (unsigned char)(v + 300);
}

K bits(const unsigned *x, unsigned *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned v = x[i];
  out[i] = __brev(v) ^ __popc(v) ^ __clz(v) << 8 ^ __ffs(v) << 16;
  out[n + i] = __byte_perm(v, ~v, 0x5140 + (i & 3));
  out[2 * n + i] = __funnelshift_l(v, ~v, i) + __funnelshift_r(v, ~v, i);
  out[3 * n + i] = __umulhi(v, 0x9E3779B9u) + __usad(v, 77, 5) + __uhadd(v, 9) + __vaddus4(v, 0x11223344);
  out[4 * n + i] = v / 7 + v % 13 + v / (i + 1) + v % (i + 3);
}
