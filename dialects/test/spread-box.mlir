// RUN: %lego-opt --split-input-file --verify-diagnostics %s | %lego-opt --split-input-file | FileCheck %s

// Sizes that are no powers of two: registers, or warps, end the box.
// CHECK-LABEL: func.func @boxes
// CHECK-SAME: tensor<4x12xf32, #lego.spread<register = {{\[\[}}0, 4], [0, 8]], lane = {{\[\[}}0, 1], [0, 2], [1, 0], [2, 0]], warp = [], box = [4, 12]>>
// CHECK-SAME: tensor<6xf16, #lego.spread<register = [], lane = {{\[\[}}1]], warp = {{\[\[}}2], [4]], box = [6]>>
// CHECK-SAME: tensor<5xi8, #lego.spread<register = {{\[\[}}1], [2], [4]], lane = {{\[\[}}0]], warp = [], copies = 2, box = [5]>>
func.func @boxes(
    %a: tensor<4x12xf32, #lego.spread<register = [[0, 4], [0, 8]], lane = [[0, 1], [0, 2], [1, 0], [2, 0]], warp = [], box = [4, 12]>>,
    %b: tensor<6xf16, #lego.spread<register = [], lane = [[1]], warp = [[2], [4]], box = [6]>>,
    %c: tensor<5xi8, #lego.spread<register = [[1], [2], [4]], lane = [[0]], warp = [], copies = 2, box = [5]>>) {
  return
}
// -----
// expected-error @+1 {{the layout spreads a tile of 8, the tensor is 6; write its sizes as 'box'}}
func.func private @missing(tensor<6xf32, #lego.spread<register = [[2], [4]], lane = [[1]], warp = []>>)
// -----
// expected-error @+1 {{the layout spreads a tile of 6, the tensor is 8}}
func.func private @other(tensor<8xf32, #lego.spread<register = [[2], [4]], lane = [[1]], warp = [], box = [6]>>)
// -----
// expected-error @+1 {{the box has 1 sizes, the tile has 2 axes}}
#axes = #lego.spread<register = [[0, 1]], lane = [[1, 0]], warp = [], box = [2]>
// -----
// expected-error @+1 {{size 4 of the box must be from 5 to 8 along axis 0}}
#small = #lego.spread<register = [[2], [4]], lane = [[1]], warp = [], box = [4]>
// -----
// expected-error @+1 {{size 9 of the box must be from 5 to 8 along axis 0}}
#large = #lego.spread<register = [[2], [4]], lane = [[1]], warp = [], box = [9]>
// -----
// expected-error @+1 {{size -3 of the box must be from 5 to 8 along axis 0}}
#negative = #lego.spread<register = [[2], [4]], lane = [[1]], warp = [], box = [-3]>
// -----
// expected-error @+1 {{the box is the tile of 8 itself; leave it out}}
#whole = #lego.spread<register = [[2], [4]], lane = [[1]], warp = [], box = [8]>
// -----
// expected-error @+1 {{the box ends inside what lanes hold along axis 0; only registers, or only warps, may have bases of 2 and more along it}}
#lanes = #lego.spread<register = [[1], [2]], lane = [[4]], warp = [], box = [6]>
// -----
// expected-error @+1 {{the box ends inside what registers and warps together hold along axis 0}}
#both = #lego.spread<register = [[1], [2]], lane = [], warp = [[4]], box = [5]>
// -----
// expected-error @+1 {{expected 'box'; after the bases follow 'copies' and 'box'}}
#word = #lego.spread<register = [[1]], lane = [], warp = [], sizes = [2]>
// -----
// expected-error @+1 {{expected 'box'}}
#twice = #lego.spread<register = [[1], [0]], lane = [], warp = [], copies = 2, copies = 2>
// -----
// expected-error @+1 {{expected integer value}}
#text = #lego.spread<register = [[1], [2]], lane = [], warp = [], box = [x]>
