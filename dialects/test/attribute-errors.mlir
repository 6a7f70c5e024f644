// RUN: %lego-opt --split-input-file --verify-diagnostics %s

// expected-error @+1 {{RegP: sigma [0, 1] counts axes from 0; sigma is 1-based}}
module attributes {t.a = #lego.layout<RegP([2, 3], [0, 1])>} {}
// -----
// expected-error @+1 {{RegP: sigma must order the 2 axes, got [1, 3]; each of 1..2 appears once}}
module attributes {t.a = #lego.layout<RegP([2, 3], [1, 3])>} {}
// -----
// expected-error @+1 {{a size is at least 1, got 0}}
module attributes {t.a = #lego.layout<Row(2, 0)>} {}
// -----
// expected-error @+1 {{GroupBy: the view [5, 6] and the reordering [6, 6] differ in their number of elements}}
module attributes {t.a = #lego.layout<OrderBy(Row(6, 6)) GroupBy([5, 6])>} {}
// -----
// expected-error @+1 {{GroupBy: the view}}
module attributes {t.a = #lego.layout<[M]: OrderBy(Row(M, 6)) GroupBy([M, 7])>} {}
// -----
// expected-error @+1 {{'Diagonal' is not a permutation: expected Row, Col}}
module attributes {t.a = #lego.layout<Diagonal(6)>} {}
// -----
// expected-error @+1 {{expected OrderBy, TileOrderBy, GroupBy or TileBy, got 'Row'}}
module attributes {t.a = #lego.layout<OrderBy(Row(6)) Row(6)>} {}
// -----
// expected-error @+1 {{expected 'tile_by' or the end of the layout, got 'GroupBy'}}
module attributes {t.a = #lego.layout<GroupBy([6]) GroupBy([6])>} {}
// -----
// expected-error @+1 {{tile_by: each level needs 2 sizes, one for each axis; got 1}}
module attributes {t.a = #lego.layout<Row(6, 6) tile_by([6])>} {}
// -----
// expected-error @+1 {{tile_by: the tiles of axis 1 do not cover its 6 elements: [2, 2]}}
module attributes {t.a = #lego.layout<Row(6, 6) tile_by([2, 2], [3, 2])>} {}
// -----
// expected-error @+1 {{TileBy: all levels must have the same number of sizes}}
module attributes {t.a = #lego.layout<TileBy([2, 2], [3])>} {}
// -----
// expected-error @+1 {{TileOrderBy: all levels must have the same number of sizes}}
module attributes {t.a = #lego.layout<TileOrderBy(Row(2, 2), Row(3))>} {}
// -----
// expected-error @+1 {{Padded: [32, 34] does not fit into [32, 33]}}
module attributes {t.a = #lego.layout<Padded(Row(32, 33), [32, 34])>} {}
// -----
// expected-error @+1 {{Padded: the inner layout has 2 sizes, the box has 1}}
module attributes {t.a = #lego.layout<Padded(Row(32, 33), [32])>} {}
// -----
// expected-error @+1 {{Strided: the stride 2 is not proved to exceed the reach of the smaller ones}}
module attributes {t.a = #lego.layout<Strided([2, 3], [2, 1])>} {}
// -----
// expected-error @+1 {{Strided: 2 sizes and 1 strides}}
module attributes {t.a = #lego.layout<Strided([2, 3], [2])>} {}
// -----
// expected-error @+1 {{gallery.morton: sizes must be powers of two, got 6}}
module attributes {t.a = #lego.layout<gallery.morton(6)>} {}
// -----
// expected-error @+1 {{gallery.hilbert: sizes must be integers}}
module attributes {t.a = #lego.layout<[M]: gallery.hilbert(M)>} {}
// -----
// expected-error @+1 {{gallery.antidiagonal: the size is at most 2^29}}
module attributes {t.a = #lego.layout<gallery.antidiagonal(1000000000)>} {}
// -----
// expected-error @+1 {{gallery.xor_swizzle: vec=3 must divide the 32 columns}}
module attributes {t.a = #lego.layout<gallery.xor_swizzle(32, 32, vec=3)>} {}
// -----
// expected-error @+1 {{gallery.xor_swizzle: max_phase=3 must be a power of two that divides the 32 groups of a row; 32 is the largest}}
module attributes {t.a = #lego.layout<gallery.xor_swizzle(32, 32, max_phase=3)>} {}
// -----
// expected-error @+1 {{gallery.xor_swizzle: the number of columns must be an integer}}
module attributes {t.a = #lego.layout<[M]: gallery.xor_swizzle(32, M)>} {}
// -----
// expected-error @+1 {{gallery.xor_swizzle: vec, per_phase and max_phase are at least 1}}
module attributes {t.a = #lego.layout<gallery.xor_swizzle(32, 32, per_phase=0)>} {}
// -----
// expected-error @+1 {{option 'phase' is unknown or out of order}}
module attributes {t.a = #lego.layout<gallery.xor_swizzle(32, 32, phase=3)>} {}
// -----
// expected-error @+1 {{gallery.block_cyclic: 3 owners times blocks of 2 must divide 13}}
module attributes {t.a = #lego.layout<gallery.block_cyclic(13, 2, 3)>} {}
// -----
// expected-error @+1 {{gallery.block_cyclic: block and owners are at least 1}}
module attributes {t.a = #lego.layout<gallery.block_cyclic(12, 0, 3)>} {}
// -----
// expected-error @+1 {{grids.grouped: rows must be at least 1, got 0}}
module attributes {t.a = #lego.layout<grids.grouped(5, 4)>} {}
// -----
// expected-error @+1 {{gallery.table: 4 positions are needed, got 3}}
module attributes {t.a = #lego.layout<gallery.table([2, 2], [3, 1, 0])>} {}
// -----
// expected-error @+1 {{gallery.table: entry 1 is 4, outside 0..3}}
module attributes {t.a = #lego.layout<gallery.table([2, 2], [3, 4, 0, 1])>} {}
// -----
// expected-error @+1 {{gallery.table: entries 0 and 2 are both 3; each of 0..3 appears once}}
module attributes {t.a = #lego.layout<gallery.table([2, 2], [3, 1, 3, 2])>} {}
// -----
// expected-error @+1 {{gallery.table: sizes must be integers}}
module attributes {t.a = #lego.layout<[M]: gallery.table([M], [0])>} {}
// -----
// expected-error @+1 {{gallery.table: the name "2 x" must be an ASCII identifier}}
module attributes {t.a = #lego.layout<gallery.table([1], [0], name="2 x")>} {}
// -----
// expected-error @+1 {{size 'K' is not declared; write [K]: in front}}
module attributes {t.a = #lego.layout<[M]: Row(M, K)>} {}
// -----
// expected-error @+1 {{size 'M' is declared twice}}
module attributes {t.a = #lego.layout<[M, M]: Row(M)>} {}
// -----
// expected-error @+1 {{'mod' is an operator, not a name of a size}}
module attributes {t.a = #lego.layout<[mod]: Row(6)>} {}
// -----
// expected-error @+1 {{size 'M': min and multiple_of are at least 1, and max is at least min; got min 3, max 2, multiple_of 1}}
module attributes {t.a = #lego.layout<[M min 3 max 2]: Row(M)>} {}
// -----
// expected-error @+1 {{size 'M': no multiple of 8 is in 9..15}}
module attributes {t.a = #lego.layout<[M min 9 max 15 multiple_of 8]: Row(M)>} {}
// -----
// expected-error @+1 {{size 'M' exceeds 2^62}}
module attributes {t.a = #lego.layout<[M min 9000000000000000000]: Row(M)>} {}
// -----
// expected-error @+1 {{a divisor in a size is at least 1, got 0}}
module attributes {t.a = #lego.layout<[M]: Row(M floordiv 0)>} {}
// -----
// expected-error @+1 {{a divisor in a size is at least 1, got 0}}
module attributes {t.a = #lego.layout<[M]: Row(M mod (M - M))>} {}
// -----
// expected-error @+1 {{the constants of a size exceed 2^62}}
module attributes {t.a = #lego.layout<[M]: Row(M * 4000000000 * 4000000000)>} {}
// -----
// expected-error @+1 {{size 9000000000000000000 is larger than 2^62}}
module attributes {t.a = #lego.layout<Row(9000000000000000000)>} {}
// -----
// expected-error @+1 {{RegP: more than 2^62 elements}}
module attributes {t.a = #lego.layout<Row(4000000000, 4000000000)>} {}
// -----
// expected-error @+1 {{expected a size: an integer or a declared name}}
module attributes {t.a = #lego.layout<Row()>} {}
// -----
// expected-error @+1 {{a size has at most 64 operands}}
module attributes {t.a = #lego.layout<Row((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((2))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))>} {}
// -----
// expected-error @+1 {{layouts are nested more than 16 deep}}
module attributes {t.a = #lego.layout<Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Padded(Row(2), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2]), [2])>} {}
// -----
// expected-error @+1 {{a tile has at most 32 sizes}}
module attributes {t.a = #lego.layout<Row(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)>} {}
