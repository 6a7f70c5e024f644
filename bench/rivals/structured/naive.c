/* The five cases as one writes them down, sizes known to the compiler: compiled once a size, a type and a compiler. */
#define KIND naive_
#include "names.h"

void NAME(dsyrk)(T *restrict S, const T *restrict A) {
    for (int i = 0; i < N; i++)
        for (int j = i; j < N; j++)
            for (int k = 0; k < 4; k++) S[i * N + j] += A[i * 4 + k] * A[j * 4 + k];
}

void NAME(dtrsv)(T *restrict x, const T *restrict L) {
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < i; k++) x[i] -= L[i * N + k] * x[k];
        x[i] /= L[i * N + i];
    }
}

void NAME(dlusmm)(T *restrict A, const T *restrict L, const T *restrict U, const T *restrict S) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            A[i * N + j] = j <= i ? S[i * N + j] : S[j * N + i];
            for (int k = 0; k <= (i < j ? i : j); k++) A[i * N + j] += L[i * N + k] * U[k * N + j];
        }
}

void NAME(dsylmm)(T *restrict A, const T *restrict S, const T *restrict L) {
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            T s = i <= k ? S[i * N + k] : S[k * N + i];
            for (int j = 0; j <= k; j++) A[i * N + j] += s * L[k * N + j];
        }
}

void NAME(composite)(T *restrict A, const T *restrict L0, const T *restrict L1, const T *restrict S, const T *restrict x) {
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) A[i * N + j] = x[i] * x[j];
        for (int k = 0; k <= i; k++) {
            T l = L0[i * N + k] + L1[i * N + k];
            for (int j = 0; j <= k; j++) A[i * N + j] += l * S[k * N + j];
            for (int j = k + 1; j < N; j++) A[i * N + j] += l * S[j * N + k];
        }
    }
}
