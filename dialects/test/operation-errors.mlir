// RUN: %lego-opt --split-input-file --verify-diagnostics %s

func.func @indices(%i: index) {
  // expected-error @+1 {{the layout has 2 logical indices, and 1 are given}}
  %p = lego.apply #lego.layout<Row(6, 6)>(%i)
  return
}
// -----
func.func @sizes(%i: index) {
  // expected-error @+1 {{the layout declares 1 sizes, and 0 are given}}
  %p:2 = lego.inv #lego.layout<[M]: Row(M, 6)>(%i)
  return
}
// -----
func.func @positions(%i: index) {
  // expected-error @+1 {{takes one position, got 2}}
  %p:2 = lego.inv #lego.layout<Row(6, 6)>(%i, %i)
  return
}
// -----
func.func @mask(%i: index) {
  // expected-error @+1 {{the layout has 1 logical indices, and 2 are given}}
  %p = lego.mask #lego.layout<Row(6)>(%i, %i)
  return
}
// -----
func.func @missing(%i: index) {
  // expected-error @+1 {{@zigzag does not name a lego.genp}}
  %p = lego.apply #lego.layout<GenP([4], @zigzag)>(%i)
  return
}
// -----
// expected-error @+1 {{is not a bijection with its inverse: apply maps [0] and [1] both to 0}}
lego.genp @half sizes [4] apply(%i) {
  %c2 = arith.constant 2 : index
  %p = arith.divui %i, %c2 : index
  lego.yield %p : index
} inv(%p) {
  lego.yield %p : index
}
// -----
// expected-error @+1 {{apply maps [0] to 0, inv maps 0 to [3]}}
lego.genp @wrong sizes [4] apply(%i) {
  lego.yield %i : index
} inv(%p) {
  %c3 = arith.constant 3 : index
  %i = arith.subi %c3, %p : index
  lego.yield %i : index
}
// -----
// expected-error @+1 {{apply maps [0] to 4, outside 0..3}}
lego.genp @outside sizes [4] apply(%i) {
  %c4 = arith.constant 4 : index
  %p = arith.addi %i, %c4 : index
  lego.yield %p : index
} inv(%p) {
  lego.yield %p : index
}
// -----
// expected-error @+1 {{apply takes 1 arguments, got 2}}
lego.genp @arguments sizes [4] apply(%i, %j) {
  lego.yield %i : index
} inv(%p) {
  lego.yield %p : index
}
// -----
// expected-error @+1 {{inv must yield 2 values}}
lego.genp @results sizes [4, 2] apply(%i, %j) {
  lego.yield %i : index
} inv(%p) {
  lego.yield %p : index
}
// -----
// expected-error @+1 {{a size is at least 1, got 0}}
lego.genp @zero sizes [0] apply(%i) {
  lego.yield %i : index
} inv(%p) {
  lego.yield %p : index
}
// -----
lego.genp @effect sizes [4] apply(%i) {
  // expected-error @+1 {{has side effects or a region, which the functions of lego.genp exclude}}
  %m = memref.alloc() : memref<4xindex>
  lego.yield %i : index
} inv(%p) {
  lego.yield %p : index
}
// -----
lego.genp @four sizes [4] apply(%i) {
  lego.yield %i : index
} inv(%p) {
  lego.yield %p : index
}
func.func @sizes(%i: index) {
  // expected-error @+1 {{the sizes of @four in the layout differ from those of the lego.genp}}
  %p = lego.apply #lego.layout<GenP([8], @four)>(%i)
  return
}
// -----
// expected-error @+1 {{the memref has 30 elements, the layout needs 32}}
func.func private @small(!lego.view<memref<30xf32>, #lego.layout<Row(4, 8)>>)
// -----
// expected-error @+1 {{a view needs a memref with the identity layout}}
func.func private @strided(!lego.view<memref<4x8xf32, strided<[16, 1]>>, #lego.layout<Row(4, 8)>>)
// -----
func.func @view(%m: memref<?xf32>) {
  // expected-error @+1 {{the layout declares 1 sizes, and 0 are given}}
  %v = lego.view %m : !lego.view<memref<?xf32>, #lego.layout<[M]: Row(M)>>
  return
}
// -----
func.func @load(%v: !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, %i: index) {
  // expected-error @+1 {{the layout has 2 logical indices, and 1 are given}}
  %x = lego.load %v[%i] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
  return
}
// -----
func.func @vector(%v: !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, %i: index) {
  // expected-error @+1 {{the vector has elements of type 'f16', the view of 'f32'}}
  %x = lego.vector_load %v[%i, %i] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, vector<4xf16>
  return
}
// -----
func.func @long(%v: !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, %i: index, %x: vector<16xf32>) {
  // expected-error @+1 {{a vector of 16 elements is longer than the last axis of 8}}
  lego.vector_store %x, %v[%i, %i] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, vector<16xf32>
  return
}
// -----
func.func @loop(%x: f32) {
  // expected-error @+1 {{the body takes 2 indices and 0 carried values, got 1 arguments}}
  lego.for_each (%i) in #lego.layout<Row(4, 8)> {
  }
  return
}
// -----
func.func @yield(%x: f32) -> f32 {
  // expected-error @+1 {{the body must yield values of the carried types}}
  %r = lego.for_each (%i) in #lego.layout<Row(4)> iter_args(%s = %x) -> (f32) {
    lego.yield
  }
  return %r : f32
}
// -----
func.func @carried(%x: f32) {
  // expected-error @+1 {{1 values are carried, and 2 types are given}}
  %r:2 = lego.for_each (%i) in #lego.layout<Row(4)> iter_args(%s = %x) -> (f32, f32) {
    lego.yield %s, %s : f32, f32
  }
  return
}
