// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.top_k' %v: %v has 4x9, expected 4x6 with 1 to 6 elements along dimension 1
func.func @more(%x: tensor<4x6xf16>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x9xf16>, tensor<4x9xi32>)
  func.return
}

// -----

// CHECK: 'kn.top_k' %v: the elements have 4x3 and their places 4x2; each element has one place
func.func @pair(%x: tensor<4x6xf16>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x3xf16>, tensor<4x2xi32>)
  func.return
}

// -----

// CHECK: 'kn.top_k' %v moves elements as they are, but %x has f16 and %v f32; insert a 'kn.cast' to convert one
func.func @types(%x: tensor<4x6xf16>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x3xf32>, tensor<4x3xi32>)
  func.return
}

// -----

// CHECK: 'kn.top_k' %v: places are of i32 or i64, but %i has elements of f16
func.func @places(%x: tensor<4x6xf16>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x3xf16>, tensor<4x3xf16>)
  func.return
}

// -----

// CHECK: 'kn.top_k' %v: dimension 2 does not exist in 4x6: expected 0 to 1
func.func @nowhere(%x: tensor<4x6xf16>) {
  %v, %i = kn.top_k %x dim 2 : (tensor<4x6xf16>) -> (tensor<4x3xf16>, tensor<4x3xi32>)
  func.return
}

// -----

// CHECK: 'kn.top_k' %v computes on floating-point numbers, but %x has elements of i32; insert a 'kn.cast' to f32 first
func.func @ordered(%x: tensor<4x6xi32>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x6xi32>) -> (tensor<4x3xi32>, tensor<4x3xi32>)
  func.return
}
