// Functions that call themselves, alone and through each other, with local arrays and branches that divide warps.
#define KERNEL extern "C" __global__ void
#define FUNCTION __device__ __noinline__

FUNCTION int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
KERNEL fibonacci_numbers(int *y) { y[threadIdx.x] = fibonacci(threadIdx.x % 13); }

FUNCTION int odd(int n);
FUNCTION int even(int n) { return n == 0 ? 1 : odd(n - 1); }
FUNCTION int odd(int n) { return n == 0 ? 0 : even(n - 1); }
KERNEL parity(int *y) { y[threadIdx.x] = even(threadIdx.x) + 10 * odd(threadIdx.x); }

FUNCTION void sort(int *a, int low, int high) {
  if (low >= high) return;
  int pivot = a[(low + high) / 2], i = low, j = high;
  while (i <= j) {
    while (a[i] < pivot) i++;
    while (a[j] > pivot) j--;
    if (i <= j) {
      int t = a[i];
      a[i++] = a[j];
      a[j--] = t;
    }
  }
  sort(a, low, j);
  sort(a, i, high);
}
KERNEL sorted(int *y) { sort(y + threadIdx.x * 16, 0, 15); }

FUNCTION int of_each_depth(int n) {
  int a[4];
  for (int i = 0; i < 4; i++) a[i] = n * i;
  int sum = n ? of_each_depth(n - 1) : 0;
  return sum + a[n & 3];
}
KERNEL local_arrays(int *y) { y[threadIdx.x] = of_each_depth(threadIdx.x % 7); }

FUNCTION int ackermann(int m, int n) {
  return !m ? n + 1 : !n ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
KERNEL ackermann_numbers(int *y) { y[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x % 4); }

FUNCTION int endless(int n) { return endless(n + 1) + n; }
KERNEL without_end(int *y) { y[threadIdx.x] = endless(y[threadIdx.x]); }

FUNCTION int outside(int *y, int n) { return n ? outside(y, n - 1) + n : y[1000]; }
KERNEL faulty(int *y) { y[threadIdx.x] = outside(y, 3); }

FUNCTION int meeting(int n) {
  __syncthreads();
  return n ? meeting(n - 1) ^ (3 * meeting(n / 2)) : 0;
}
KERNEL barriers(int *y) { y[threadIdx.x] = meeting(y[threadIdx.x]); }
