# The example of the LGen paper, table 1: a product of two triangular matrices plus a symmetric matrix whose lower half
# is stored. Run it with: lego-mlir run examples/lu_plus_s.ll
A = Matrix(4, 4);    L = LowerTriangular(4);
S = Symmetric(L, 4); U = UpperTriangular(4);

A = L*U + S;
