/* Preloaded into a process of its own: MKL asks this function for the function that says whether the processor is
   Intel's, and with "yes" takes its AVX-512 kernels wherever the processor has the instructions. */
static int yes(void) { return 1; }

void *mkl_serv_get_cpu_true(void) { return (void *)yes; }
