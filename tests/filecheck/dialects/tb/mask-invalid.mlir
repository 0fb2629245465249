// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s
// CHECK: 'tb.mask' %y: the condition (d0 mod 2) >= 0 is not linear; a form of coordinates times whole numbers is compared with a number
func.func @not_linear(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 where affine_set<(i, j) : (i mod 2 >= 0)> of [8, 8] imap [-1, -1, -1] : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y: its conditions are on 1 dimensions and 0 symbols, expected 2 dimensions, those of 8x8
func.func @other_rank(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 where affine_set<(i) : (i >= 0)> of [8, 8] imap [-1, -1, -1] : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y: dimension 0 of the tile: 8 elements in 2 tiles need 4 in each, or more where none is left empty, not 8
func.func @not_its_tile(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 where affine_set<(i, j) : (i >= 0)> of [8, 8] imap [0, -1, -1] : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y: a tile of 2 dimensions cannot be one of a tensor of 3
func.func @other_tensor(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 where affine_set<(i, j) : (i >= 0)> of [8, 8, 8] imap [-1, -1, -1] : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y has no condition; leave it out
func.func @no_condition(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 where affine_set<(i, j) : ()> of [8, 8] imap [-1, -1, -1] : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y has no condition; write 'where' and 'of', or leave it out
func.func @nothing(%x: tensor<8x8xf32>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf32>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %y = tb.mask %s with 0.0 : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return
}
