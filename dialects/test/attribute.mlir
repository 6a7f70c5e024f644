// RUN: %lego-opt %s | FileCheck %s
// RUN: %lego-opt %s | %lego-opt | FileCheck %s
// RUN: %lego-opt --mlir-print-op-generic %s | %lego-opt | FileCheck %s
// RUN: %lego-opt --emit-bytecode %s | %lego-opt | FileCheck %s

// Every form of a layout, printed as Python prints it.
module attributes {
  // CHECK: t.antidiagonal = #lego.layout<gallery.antidiagonal(5)>
  t.antidiagonal = #lego.layout<gallery.antidiagonal(5)>,
  // CHECK-SAME: t.bare = #lego.layout<OrderBy(Col(2, 2), Row(3)) GroupBy([2, 2, 3])>
  t.bare = #lego.layout<OrderBy(Col(2, 2), Row(3))>,
  // CHECK-SAME: t.box = #lego.layout<GroupBy([2, 2], [3, 3])>
  t.box = #lego.layout<GroupBy([2, 2], [3, 3])>,
  // CHECK-SAME: t.col = #lego.layout<Col(4, 6)>
  t.col = #lego.layout<RegP([4, 6], [2, 1])>,
  // CHECK-SAME: t.columns = #lego.layout<grids.columns(4, 5, width=2)>
  t.columns = #lego.layout<grids.columns(4, 5, width=2)>,
  // CHECK-SAME: t.cyclic = #lego.layout<gallery.block_cyclic(12, 2, 3)>
  t.cyclic = #lego.layout<gallery.block_cyclic(12, 2, 3)>,
  // CHECK-SAME: t.figure9 = #lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>
  t.figure9 = #lego.layout<OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>,
  // CHECK-SAME: t.genp = #lego.layout<GenP([4, 4], @zigzag)>
  t.genp = #lego.layout<GenP([4, 4], @zigzag)>,
  // CHECK-SAME: t.grouped = #lego.layout<grids.grouped(5, 4, rows=2)>
  t.grouped = #lego.layout<grids.grouped(5, 4, rows=2)>,
  // CHECK-SAME: t.hilbert = #lego.layout<gallery.hilbert(8)>
  t.hilbert = #lego.layout<gallery.hilbert(8)>,
  // CHECK-SAME: t.morton = #lego.layout<gallery.morton(8)>
  t.morton = #lego.layout<gallery.morton(8, 8)>,
  // CHECK-SAME: t.morton2 = #lego.layout<gallery.morton(4, 16)>
  t.morton2 = #lego.layout<gallery.morton(4, 16)>,
  // CHECK-SAME: t.padded = #lego.layout<Padded(Row(32, 33), [32, 32])>
  t.padded = #lego.layout<Padded(Row(32, 33), [32, 32])>,
  // CHECK-SAME: t.partial = #lego.layout<Padded(Row(8, 8), [6, 6]) tile_by([2, 2], [4, 4])>
  t.partial = #lego.layout<Padded(Row(8, 8), [6, 6]) tile_by([2, 2], [4, 4])>,
  // CHECK-SAME: t.regp = #lego.layout<RegP([2, 3, 4], [1, 3, 2])>
  t.regp = #lego.layout<RegP([2, 3, 4], [1, 3, 2])>,
  // CHECK-SAME: t.reverse = #lego.layout<gallery.reverse(2, 3)>
  t.reverse = #lego.layout<gallery.reverse(2, 3)>,
  // CHECK-SAME: t.row = #lego.layout<Row(6, 6)>
  t.row = #lego.layout<OrderBy(Row(6, 6)) GroupBy([6, 6])>,
  // CHECK-SAME: t.strided = #lego.layout<[M, pitch min 64]: Strided([M, 64], [pitch, 1])>
  t.strided = #lego.layout<[M, pitch min 64]: Strided([M, 64], [pitch, 1])>,
  // CHECK-SAME: t.swizzle = #lego.layout<gallery.xor_swizzle(32, 64, vec=8, per_phase=2, max_phase=4)>
  t.swizzle = #lego.layout<gallery.xor_swizzle(32, 64, vec=8, per_phase=2, max_phase=4)>,
  // CHECK-SAME: t.swizzle1 = #lego.layout<gallery.xor_swizzle(32, 64, max_phase=4)>
  t.swizzle1 = #lego.layout<gallery.xor_swizzle(32, 64, max_phase=4)>,
  // CHECK-SAME: t.symbolic = #lego.layout<[M multiple_of 32, N min 2 max 4096]: TileBy([M floordiv 32, N ceildiv 2], [32, 2])>
  t.symbolic = #lego.layout<[M multiple_of 32, N min 2 max 4096]: TileBy([M floordiv 32, N ceildiv 2], [32, 2])>,
  // CHECK-SAME: t.symsums = #lego.layout<[M, N]: Row(M * 2 + N - 1, (M + N) floordiv 2 + 1, M mod 4 + 1)>
  t.symsums = #lego.layout<[M, N]: Row(M * 2 + N - 1, (M + N) floordiv 2 + 1, M mod 4 + 1)>,
  // CHECK-SAME: t.table = #lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="perm")>
  t.table = #lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="perm")>,
  // CHECK-SAME: t.tile_by = #lego.layout<Row(6, 6) tile_by([2, 2], [3, 3])>
  t.tile_by = #lego.layout<Row(6, 6) tile_by([2, 2], [3, 3])>,
  // CHECK-SAME: t.tile_order = #lego.layout<OrderBy(Row(2, 2), Row(3, 3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>
  t.tile_order = #lego.layout<TileOrderBy(Row(2, 2), Row(3, 3)) GroupBy([6, 6])>,
  // CHECK-SAME: t.tiled = #lego.layout<OrderBy(Col(6, 6)) TileBy([2, 2], [3, 3])>
  t.tiled = #lego.layout<OrderBy(Col(6, 6)) TileBy([2, 2], [3, 3])>
} {}
