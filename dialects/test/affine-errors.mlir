// RUN: %lego-opt --verify-diagnostics --pass-pipeline='builtin.module(lego-lower-to-affine)' %s

func.func @xor(%i: index, %j: index) -> index {
  // expected-error @+1 {{is not affine: the layout has products of indices, bit operations, roots, tables or functions}}
  %p = lego.apply #lego.layout<gallery.xor_swizzle(8, 8)>(%i, %j)
  return %p : index
}
