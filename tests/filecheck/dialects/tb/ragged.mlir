// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --split-input-file --verify-diagnostics %S/Inputs/ragged-invalid.mlir | filecheck %s --check-prefix INVALID
// Partitions that do not divide, nested axes, and outputs of each iteration.

// 10 rows in 4 slices of 3, over two axes of one dimension: the last slice has one row.
// CHECK-LABEL: @nested
// CHECK: tb.input %{{.*}} imap [0, 0, -1] : tensor<10x8xf16> -> !tb.stensor<3x8xf16>
// CHECK: tb.output %{{.*}} omap [0, 0, -1] : !tb.stensor<3x8xf16> -> tensor<10x8xf16>
func.func @nested(%x: tensor<10x8xf16>) -> tensor<10x8xf16> {
  %o = kn.customized %x grid [2, 2, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<10x8xf16>):
    %s = tb.input %d imap [0, 0, -1] : tensor<10x8xf16> -> !tb.stensor<3x8xf16>
    tb.output %s omap [0, 0, -1] : !tb.stensor<3x8xf16> -> tensor<10x8xf16>
  } : (tensor<10x8xf16>) -> tensor<10x8xf16>
  func.return %o : tensor<10x8xf16>
}

// Every iteration stores its own slice; the last of 9 columns in 4 tiles of 3 is empty.
// CHECK-LABEL: @each_iteration
// CHECK: tb.output %{{.*}} omap [-1, -1, -1] fordim 1 : !tb.stensor<4x3xf16> -> tensor<4x9xf16>
func.func @each_iteration(%x: tensor<4x9xf16>) -> tensor<4x9xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<4x9xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x9xf16> -> !tb.stensor<4x3xf16>
    %e = tb.exp %s : !tb.stensor<4x3xf16> -> !tb.stensor<4x3xf16>
    tb.output %e omap [-1, -1, -1] fordim 1 : !tb.stensor<4x3xf16> -> tensor<4x9xf16>
  } : (tensor<4x9xf16>) -> tensor<4x9xf16>
  func.return %o : tensor<4x9xf16>
}

// A tile may have more than what divides the tensor evenly: 300 rows in tiles of 128, 128 and 44.
// CHECK-LABEL: @chosen
// CHECK: tb.input %{{.*}} imap [0, -1, -1] : tensor<300x8xf16> -> !tb.stensor<128x8xf16>
func.func @chosen(%x: tensor<300x8xf16>) -> tensor<300x8xf16> {
  %o = kn.customized %x grid [3, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<300x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<300x8xf16> -> !tb.stensor<128x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<128x8xf16> -> tensor<300x8xf16>
  } : (tensor<300x8xf16>) -> tensor<300x8xf16>
  func.return %o : tensor<300x8xf16>
}

// INVALID: 'tb.add' %a: dimension 0 of %s is ragged (extent 7, step 4, blocks [2, 1, 1], tile 4), but dimension 0 of %t is always whole; they must have the same elements in every block and iteration
// INVALID: 'tb.output' of %s: dimension 0 of %s is ragged (extent 7, step 4, blocks [2, 1, 1], tile 4), but the tiles of the result are always whole there
// INVALID: 'tb.add' %a broadcasts %s along dimension 0, where its one element does not exist in every block and iteration
// INVALID: 'tb.output' of %a stores %a in every iteration, but it exists only after the loop; leave out 'fordim', or store a value of the loop body
// INVALID: 'tb.output' of %s: dimension 1 of the tile: 8 elements in 2 tiles need 4 in each, or more where none is left empty, not 8
// INVALID: 'tb.mask' %m counts 3 blocks along grid axis x, which has 2
