"""Small linear algebra on structured matrices: LL programs, isl statements, and CPU code through MLIR."""
