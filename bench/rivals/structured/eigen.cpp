// The five cases with Eigen's fixed-size matrices and structured views: compiled once a size and a type.
#include "eigen_types.h"

extern "C" {
void NAME(dsyrk)(T *S, const T *A) {
    Map<Square>(S).selfadjointView<Upper>().rankUpdate(Map<const Tall>(A));
}

void NAME(dtrsv)(T *x, const T *L) {
    Map<Column> right(x);
    Map<const Square>(L).triangularView<Lower>().solveInPlace(right);
}

void NAME(dlusmm)(T *A, const T *L, const T *U, const T *S) {
    Map<Square> out(A);
    Square upper = Map<const Square>(U).triangularView<Upper>();
    out = Map<const Square>(S).selfadjointView<Lower>();
    out.noalias() += Map<const Square>(L).triangularView<Lower>() * upper;
}

void NAME(dsylmm)(T *A, const T *S, const T *L) {
    Square lower = Map<const Square>(L).triangularView<Lower>();
    Map<Square>(A).noalias() += Map<const Square>(S).selfadjointView<Upper>() * lower;
}

void NAME(composite)(T *A, const T *L0, const T *L1, const T *S, const T *x) {
    Map<Square> out(A);
    Map<const Column> v(x);
    Square sum = (Map<const Square>(L0) + Map<const Square>(L1)).eval().template triangularView<Lower>();
    out.noalias() = v * v.transpose();
    out.noalias() += sum * Map<const Square>(S).selfadjointView<Lower>();
}
}
