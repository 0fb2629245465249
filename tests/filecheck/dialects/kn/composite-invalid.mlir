// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.softmax' %y: dimension 2 does not exist in 4x6: expected 0 to 1
func.func @dimension(%x: tensor<4x6xf16>) {
  %y = kn.softmax %x dim 2 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.mean' %y: the result has 4x6, expected 4x1
func.func @result(%x: tensor<4x6xf16>) {
  %y = kn.mean %x dim 1 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.softmax' %y computes on floating-point numbers, but %x has elements of i32; insert a 'kn.cast' to f32 first
func.func @integers(%x: tensor<4x6xi32>) {
  %y = kn.softmax %x dim 1 : tensor<4x6xi32> -> tensor<4x6xi32>
  func.return
}

// -----

// CHECK: 'kn.layer_norm' %y: the bias %b has 4, expected 6, the extents that are normalised over
func.func @bias(%x: tensor<4x6xf16>, %w: tensor<6xf16>, %b: tensor<4xf16>) {
  %y = kn.layer_norm %x affine %w, %b over [6] : (tensor<4x6xf16>, tensor<6xf16>, tensor<4xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.layer_norm' %y has 3 operands behind 'affine', expected a weight, or a weight and a bias
func.func @operands(%x: tensor<4x6xf16>, %w: tensor<6xf16>) {
  %y = kn.layer_norm %x affine %w, %w, %w over [6] : (tensor<4x6xf16>, tensor<6xf16>, tensor<6xf16>, tensor<6xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.reshape' %y: 5x5 are 25 elements, but the operand's 4x6 are 24
func.func @reshape(%x: tensor<4x6xf16>) {
  %y = kn.reshape %x : tensor<4x6xf16> -> tensor<5x5xf16>
  func.return
}

// -----

// CHECK: 'kn.reshape' %y moves elements as they are, but %x has f16 and %y f32; insert a 'kn.cast' to convert one
func.func @types(%x: tensor<4x6xf16>) {
  %y = kn.reshape %x : tensor<4x6xf16> -> tensor<6x4xf32>
  func.return
}

// -----

// CHECK: 'kn.rotary' %y: rows of 5 elements have no halves
func.func @halves(%x: tensor<4x5xf16>) {
  %y = kn.rotary %x, %x, %x : (tensor<4x5xf16>, tensor<4x5xf16>, tensor<4x5xf16>) -> tensor<4x5xf16>
  func.return
}

// -----

// CHECK: 'kn.rotary' %y: cosines and sines have extents beyond the operand's 1x6
func.func @angles(%x: tensor<1x6xf16>, %c: tensor<4x6xf16>) {
  %y = kn.rotary %x, %c, %c : (tensor<1x6xf16>, tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.broadcast' %y: 4x6 cannot be broadcast to 4x1: extents are equal, or 1 in the operand
func.func @broadcast(%x: tensor<4x6xf16>) {
  %y = kn.broadcast %x : tensor<4x6xf16> -> tensor<4x1xf16>
  func.return
}

// -----

// CHECK: 'kn.transpose' %y: the order [1, 1] must name each dimension of 4x6 once: 0 to 1
func.func @order(%x: tensor<4x6xf16>) {
  %y = kn.transpose %x dims [1, 1] : tensor<4x6xf16> -> tensor<6x6xf16>
  func.return
}

// -----

// CHECK: 'kn.slice' %y: along dimension 1 the part is elements 3 to 6, but the operand (%x) has 6
func.func @slice(%x: tensor<4x6xf16>) {
  %y = kn.slice %x from [0, 3] : tensor<4x6xf16> -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.slice' %y: a part of 4 that starts at [0, 3] is not one of 4x6: expected 2 numbers each
func.func @rank(%x: tensor<4x6xf16>) {
  %y = kn.slice %x from [0, 3] : tensor<4x6xf16> -> tensor<4xf16>
  func.return
}
