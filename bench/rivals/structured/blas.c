/* The five cases of bench/structured.py through a BLAS whose functions are looked up at run time. */
#include <stdlib.h>
#include <string.h>
#include <dlfcn.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, UPPER = 121, LOWER = 122, NON_UNIT = 131, LEFT = 141, RIGHT = 142 };

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

static struct {
    void (*dsyrk)(int, int, int, int, int, double, const double *, int, double, double *, int);
    void (*dtrsv)(int, int, int, int, int, const double *, int, double *, int);
    void (*dtrmm)(int, int, int, int, int, int, int, double, const double *, int, double *, int);
    void (*dsymm)(int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
    void (*dger)(int, int, int, double, const double *, int, const double *, int, double *, int);
    void (*ssyrk)(int, int, int, int, int, float, const float *, int, float, float *, int);
    void (*strsv)(int, int, int, int, int, const float *, int, float *, int);
    void (*strmm)(int, int, int, int, int, int, int, float, const float *, int, float *, int);
    void (*ssymm)(int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    void (*sger)(int, int, int, float, const float *, int, const float *, int, float *, int);
} blas[4];

static int n_of, which;
static void *scratch;

/* Load library number `number`; `prefix` stands before each cblas name. 0: done. */
int load_blas(int number, const char *path, const char *prefix) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *names[] = {"dsyrk", "dtrsv", "dtrmm", "dsymm", "dger", "ssyrk", "strsv", "strmm", "ssymm", "sger"};
    void **slots = (void **)&blas[number];
    if (!library) return 1;
    for (int i = 0; i < 10; i++) {
        char name[64] = "";
        strcat(strcat(strcat(name, prefix), "cblas_"), names[i]);
        if (!(slots[i] = dlsym(library, name))) return 2;
    }
    if (!scratch) scratch = aligned_alloc(64, 128 * 128 * sizeof(double));
    return 0;
}

void choose_blas(int number, int n) { which = number; n_of = n; }

#define CASES(T, p, t)                                                                                                 \
    void JOIN(t, blas_dsyrk)(T * S, const T *A) {                                                                      \
        int n = n_of;                                                                                                  \
        blas[which].JOIN(p, syrk)(ROW_MAJOR, UPPER, NO_TRANS, n, 4, 1, A, 4, 1, S, n);                                 \
    }                                                                                                                  \
    void JOIN(t, blas_dtrsv)(T * x, const T *L) {                                                                      \
        int n = n_of;                                                                                                  \
        blas[which].JOIN(p, trsv)(ROW_MAJOR, LOWER, NO_TRANS, NON_UNIT, n, L, n, x, 1);                                \
    }                                                                                                                  \
    void JOIN(t, blas_dlusmm)(T * A, const T *L, const T *U, const T *S) {                                             \
        int n = n_of;                                                                                                  \
        memcpy(A, U, sizeof(T) * n * n);                                                                               \
        blas[which].JOIN(p, trmm)(ROW_MAJOR, LEFT, LOWER, NO_TRANS, NON_UNIT, n, n, 1, L, n, A, n);                    \
        for (int i = 0; i < n; i++) {                                                                                  \
            for (int j = 0; j <= i; j++) A[i * n + j] += S[i * n + j];                                                 \
            for (int j = i + 1; j < n; j++) A[i * n + j] += S[j * n + i];                                              \
        }                                                                                                              \
    }                                                                                                                  \
    void JOIN(t, blas_dsylmm)(T * A, const T *S, const T *L) {                                                         \
        int n = n_of;                                                                                                  \
        blas[which].JOIN(p, symm)(ROW_MAJOR, LEFT, UPPER, n, n, 1, S, n, L, n, 1, A, n);                               \
    }                                                                                                                  \
    void JOIN(t, blas_composite)(T * A, const T *L0, const T *L1, const T *S, const T *x) {                            \
        int n = n_of;                                                                                                  \
        T *sum = scratch;                                                                                              \
        for (int i = 0; i < n * n; i++) sum[i] = L0[i] + L1[i];                                                        \
        memset(A, 0, sizeof(T) * n * n);                                                                               \
        blas[which].JOIN(p, ger)(ROW_MAJOR, n, n, 1, x, 1, x, 1, A, n);                                                \
        blas[which].JOIN(p, symm)(ROW_MAJOR, RIGHT, LOWER, n, n, 1, S, n, sum, n, 1, A, n);                            \
    }

CASES(double, d, d_)
CASES(float, s, s_)
