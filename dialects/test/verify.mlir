// RUN: %lego-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lego-verify{bound=4096})' %s

func.func @good(%i: index, %M: index) {
  %a = lego.apply #lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])>(%i, %i)
  %b = lego.apply #lego.layout<gallery.hilbert(16)>(%i, %i)
  %c = lego.apply #lego.layout<gallery.morton(4, 32)>(%i, %i)
  %d = lego.apply #lego.layout<grids.grouped(7, 5, rows=3)>(%i, %i)
  %e = lego.apply #lego.layout<grids.columns(5, 7, width=3)>(%i, %i)
  %f = lego.apply #lego.layout<gallery.block_cyclic(24, 2, 3)>(%i)
  %g = lego.apply #lego.layout<gallery.xor_swizzle(12, 24, vec=3, per_phase=2)>(%i, %i)
  %h = lego.apply #lego.layout<Padded(Row(8, 8), [6, 6]) tile_by([2, 2], [4, 4])>(%i, %i, %i, %i)
  %j = lego.apply #lego.layout<[M multiple_of 4]: OrderBy(Row(M floordiv 4, 4)) TileBy([M floordiv 4, 1], [2, 2])>(%i, %i, %i, %i)[%M]
  %k = lego.apply #lego.layout<Strided([3, 4], [8, 2])>(%i, %i)
  %l = lego.apply #lego.layout<[M]: gallery.antidiagonal(M)>(%i, %i)[%M]
  return
}
// -----
// Values of the sizes that do not agree with each other are not tried.
func.func @related(%i: index, %M: index) {
  %a = lego.apply #lego.layout<[M, N]: OrderBy(Col(M, N)) GroupBy([M, M])>(%i, %i)[%M, %M]
  %b = lego.apply #lego.layout<[M, P]: Padded(Row(P, 4), [M, 3])>(%i, %i)[%M, %M]
  return
}
// -----
// A function that is wrong for every size but 1.
lego.genp @half sizes [?] apply(%i)[%n] {
  // expected-remark @-1 {{not enumerated}}
  %c2 = arith.constant 2 : index
  %p = arith.divui %i, %c2 : index
  lego.yield %p : index
} inv(%p)[%n] {
  lego.yield %p : index
}
func.func @symbolic(%i: index, %M: index) {
  // expected-error @+1 {{has a layout that is not one-to-one: apply maps [0] and [1] both to 0, with M = 2}}
  %a = lego.apply #lego.layout<[M multiple_of 2]: GenP([M], @half)>(%i)[%M]
  return
}
// -----
// expected-error @+1 {{is not a bijection with its inverse: apply maps [0] and [2048] both to 0}}
lego.genp @large sizes [4096] apply(%i) {
  %c = arith.constant 2048 : index
  %p = arith.remui %i, %c : index
  lego.yield %p : index
} inv(%p) {
  lego.yield %p : index
}
// -----
// expected-remark @+1 {{not enumerated: its sizes are not known, or it has more than 4096 elements}}
lego.genp @dynamic sizes [?] apply(%i)[%n] {
  lego.yield %i : index
} inv(%p)[%n] {
  lego.yield %p : index
}
func.func @symbolic(%i: index, %M: index) {
  %a = lego.apply #lego.layout<[M]: GenP([M], @dynamic)>(%i)[%M]
  return
}
// -----
func.func @too_large(%i: index) {
  // expected-remark @+1 {{not enumerated: a layout with more than 4096 elements}}
  %a = lego.apply #lego.layout<gallery.hilbert(128)>(%i, %i)
  return
}
