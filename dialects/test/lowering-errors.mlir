// RUN: %lego-opt --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lego-lower-to-arith)' %s

func.func @argument(%v: !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, %i: index) -> f32 {
  // expected-error @+1 {{needs a view made by lego.view in the same function}}
  %x = lego.load %v[%i, %i] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
  return %x : f32
}
// -----
func.func @escapes(%m: memref<32xf32>) -> !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>> {
  // expected-error @+1 {{is used by an operation that is not a lego access}}
  %v = lego.view %m : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
  return %v : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
}
