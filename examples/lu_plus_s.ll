# The example of the LGen paper, table 1: a product of two triangles and a symmetric matrix of which the lower half is
# stored. Run it with: lego-mlir run examples/lu_plus_s.ll
A = Matrix(4, 4);    L = LowerTriangular(4);
S = Symmetric(L, 4); U = UpperTriangular(4);

A = L*U + S;
