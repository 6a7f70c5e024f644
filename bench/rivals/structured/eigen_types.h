// Eigen without threads, and the matrices of the five cases.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_STACK_ALLOCATION_LIMIT 0
#include <Eigen/Dense>
#define KIND eigen_
#include "names.h"

using namespace Eigen;
using Square = Matrix<T, N, N, RowMajor>;
using Tall = Matrix<T, N, 4, RowMajor>;
using Column = Matrix<T, N, 1>;
