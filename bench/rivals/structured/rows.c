/* The five cases with every inner loop along a row and symmetric matrices filled first, which compilers turn into
   vector code more easily than the formulas as they stand (naive.c): compiled once a size, a type and a compiler. */
#define KIND rows_
#include "names.h"

void NAME(dsyrk)(T *restrict S, const T *restrict A) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            for (int j = i; j < N; j++) S[i * N + j] += A[i * 4 + k] * A[j * 4 + k];
}

void NAME(dtrsv)(T *restrict x, const T *restrict L) {
    for (int k = 0; k < N; k++) {
        x[k] /= L[k * N + k];
        for (int i = k + 1; i < N; i++) x[i] -= L[i * N + k] * x[k];
    }
}

void NAME(dlusmm)(T *restrict A, const T *restrict L, const T *restrict U, const T *restrict S) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) A[i * N + j] = j <= i ? S[i * N + j] : S[j * N + i];
        for (int k = 0; k <= i; k++)
            for (int j = k; j < N; j++) A[i * N + j] += L[i * N + k] * U[k * N + j];
    }
}

void NAME(dsylmm)(T *restrict A, const T *restrict S, const T *restrict L) {
    _Alignas(64) T full[N * N];
    for (int i = 0; i < N; i++)
        for (int j = i; j < N; j++) full[i * N + j] = full[j * N + i] = S[i * N + j];
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int j = 0; j <= k; j++) A[i * N + j] += full[i * N + k] * L[k * N + j];
}

void NAME(composite)(T *restrict A, const T *restrict L0, const T *restrict L1, const T *restrict S, const T *restrict x) {
    _Alignas(64) T full[N * N];
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) full[i * N + j] = full[j * N + i] = S[i * N + j];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) A[i * N + j] = x[i] * x[j];
        for (int k = 0; k <= i; k++) {
            T l = L0[i * N + k] + L1[i * N + k];
            for (int j = 0; j < N; j++) A[i * N + j] += l * full[k * N + j];
        }
    }
}
