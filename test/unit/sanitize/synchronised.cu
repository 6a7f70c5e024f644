// Correct kernels with synchronisation, from each of which a test removes one piece at a time.
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const float *x, float *y, int n)

KERNEL tree ARGUMENTS {
  __shared__ float s[128];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 128 + t];
  __syncthreads();
  for (int d = 64; d; d /= 2) {
    if (t < d) s[t] += s[t + d];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = s[0];
}
KERNEL transposed ARGUMENTS {
  __shared__ float s[16][17];
  int i = threadIdx.x / 16, j = threadIdx.x % 16;
  for (int r = 0; r < 16; r += 8) s[i + r][j] = x[(i + r) * 16 + j];
  __syncthreads();
  for (int r = 0; r < 16; r += 8) y[(i + r) * 16 + j] = s[j][i + r];
}
KERNEL product ARGUMENTS {
  __shared__ float a[8][16], b[16][8];
  float sum = 0;
  int i = threadIdx.x / 16, j = threadIdx.x % 16;
  for (int k = 0; k < 64; k += 16) {
    a[i][j] = x[i * 64 + k + j];
    b[j][i] = x[(k + j) * 8 + i];
    __syncthreads();
    for (int q = 0; q < 16; q++) sum += a[i][q] * b[q][j & 7];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}
KERNEL scan ARGUMENTS {
  __shared__ float s[2][128];
  int t = threadIdx.x, from = 0;
  s[0][t] = x[t];
  __syncthreads();
  for (int d = 1; d < 128; d *= 2, from ^= 1) {
    s[from ^ 1][t] = s[from][t] + (t >= d ? s[from][t - d] : 0);
    __syncthreads();
  }
  y[t] = s[from][t];
}
KERNEL pipeline ARGUMENTS {
  __shared__ float s[2][128];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < 5; k++) {
    if (k < 4) {
      unsigned to = (unsigned)__cvta_generic_to_shared(&s[k & 1][t]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(x + k * 128 + t));
      asm volatile("cp.async.commit_group;");
    }
    if (k == 0) continue;
    if (k < 4) asm volatile("cp.async.wait_group 1;");
    else asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    sum += s[(k - 1) & 1][t ^ 33];
    __syncthreads();
  }
  y[t] = sum;
}
KERNEL last_block ARGUMENTS {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    y[8 + blockIdx.x] = x[blockIdx.x];
    __threadfence();
    last = atomicAdd((int *)y, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x < gridDim.x) y[16 + threadIdx.x] = 2 * ((volatile float *)y)[8 + threadIdx.x];
}
KERNEL flag ARGUMENTS {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    y[1] = x[0];
    __threadfence();
    atomicExch((int *)y, 1);
  } else {
    while (atomicAdd((int *)y, 0) == 0);
    __threadfence();
    y[1 + blockIdx.x] = *(volatile float *)(y + 1);
  }
}
KERNEL halves ARGUMENTS {
  __shared__ float s[64];
  int t = threadIdx.x;
  if (t < 64) {
    s[t] = x[t];
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    y[t] = s[127 - t];
  }
}
