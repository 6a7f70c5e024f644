// The five cases with Eigen, structured matrices filled to general ones first: at a few rows and columns its general
// product, unrolled, is faster than its structured ones (eigen.cpp). Compiled once a size and a type.
#include "eigen_types.h"

extern "C" {
void NAME(dsyrk)(T *S, const T *A) {
    Map<const Tall> a(A);
    Map<Square>(S).triangularView<Upper>() += a.lazyProduct(a.transpose());
}

void NAME(dtrsv)(T *x, const T *L) {
    Map<Column> right(x);
    Map<const Square>(L).triangularView<Lower>().solveInPlace(right);
}

void NAME(dlusmm)(T *A, const T *L, const T *U, const T *S) {
    Map<Square> out(A);
    Square lower = Map<const Square>(L).triangularView<Lower>();
    Square upper = Map<const Square>(U).triangularView<Upper>();
    out = Map<const Square>(S).selfadjointView<Lower>();
    out.noalias() += lower * upper;
}

void NAME(dsylmm)(T *A, const T *S, const T *L) {
    Square full = Map<const Square>(S).selfadjointView<Upper>();
    Square lower = Map<const Square>(L).triangularView<Lower>();
    Map<Square>(A).noalias() += full * lower;
}

void NAME(composite)(T *A, const T *L0, const T *L1, const T *S, const T *x) {
    Map<Square> out(A);
    Map<const Column> v(x);
    Square sum = (Map<const Square>(L0) + Map<const Square>(L1)).eval().template triangularView<Lower>();
    Square full = Map<const Square>(S).selfadjointView<Lower>();
    out.noalias() = v * v.transpose();
    out.noalias() += sum * full;
}
}
