// RUN: %lego-opt --split-input-file --verify-diagnostics %s | %lego-opt --split-input-file | FileCheck %s
// RUN: %lego-opt --split-input-file --verify-diagnostics --mlir-print-op-generic %s | %lego-opt --split-input-file | FileCheck %s

// A tile of 4x16 in 32 threads of 2 registers, and one that 2 warps share.
// CHECK-LABEL: func.func @tiles
// CHECK-SAME: tensor<4x16xf32, #lego.spread<register = {{\[\[}}0, 1]], lane = {{\[\[}}0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], warp = []>>
// CHECK-SAME: tensor<32xi8, #lego.spread<register = [], lane = {{\[\[}}1], [2], [4], [8], [16]], warp = {{\[\[}}0]], copies = 2>>
// CHECK-SAME: tensor<f16, #lego.spread<register = [], lane = {{\[\[}}], []], warp = [], copies = 4>>
// CHECK-SAME: tensor<1x1xindex, #lego.spread<register = [], lane = [], warp = []>>
func.func @tiles(
    %a: tensor<4x16xf32, #lego.spread<register = [[0, 1]], lane = [[0, 2], [0, 4], [0, 8], [1, 0], [2, 0]], warp = []>>,
    %b: tensor<32xi8, #lego.spread<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[0]], copies = 2>>,
    %c: tensor<f16, #lego.spread<register = [], lane = [[], []], warp = [], copies = 4>>,
    %d: tensor<1x1xindex, #lego.spread<register = [], lane = [], warp = []>>) {
  return
}
// -----
// expected-error @+1 {{element [1] of the tile of 4 has no place: it is not the exclusive or of any bases}}
#hole = #lego.spread<register = [[2]], lane = [[2]], warp = []>
// -----
// expected-error @+1 {{each element has 2 places, 'copies' is 1}}
#silent = #lego.spread<register = [[1]], lane = [[2], [3]], warp = []>
// -----
// expected-error @+1 {{coordinate 4 of a basis must be from 0 to 3, as there are 2^2 places}}
#far = #lego.spread<register = [[4]], lane = [[1]], warp = []>
// -----
// expected-error @+1 {{the bases reach into a tile of 4x4, which has more elements than there are places, 2^3}}
#wide = #lego.spread<register = [[2, 1]], lane = [[1, 2]], warp = [[1, 1]]>
// -----
// expected-error @+1 {{this basis has 1 coordinates, those before it have 2}}
#ragged = #lego.spread<register = [[0, 1]], lane = [[1]], warp = []>
// -----
// expected-error @+1 {{a layout has at most 6 bases of 'lane'}}
#lanes = #lego.spread<register = [], lane = [[1], [2], [4], [8], [16], [32], [64]], warp = []>
// -----
// expected-error @+1 {{a block has at most 1024 threads, got 2^11}}
#block = #lego.spread<register = [], lane = [[1], [2], [4], [8], [16]], warp = [[0], [0], [0], [0], [0], [0]], copies = 64>
// -----
// expected-error @+1 {{the layout spreads a tile of 4, the tensor is 6}}
func.func private @box(tensor<6xf32, #lego.spread<register = [[1]], lane = [[2]], warp = []>>)
// -----
// expected-error @+1 {{a spread tile has elements of integer, index or float type, got 'complex<f32>'}}
func.func private @type(tensor<4xcomplex<f32>, #lego.spread<register = [[1]], lane = [[2]], warp = []>>)
// -----
// expected-error @+1 {{type `unknown` in dialect `lego`}}
func.func private @unknown(tensor<4x!lego.unknown, #lego.spread<register = [[1]], lane = [[2]], warp = []>>)
