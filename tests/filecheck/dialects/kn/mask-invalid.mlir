// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.mask' %y: its conditions are on 1 dimensions and 0 symbols, expected 2 dimensions, those of 4x6
func.func @dimensions(%x: tensor<4x6xf16>) {
  %y = kn.mask %x where affine_set<(i) : (i >= 0)> else 0.0 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.mask' %y: its conditions are on 2 dimensions and 1 symbols, expected 2 dimensions, those of 4x6
func.func @symbols(%x: tensor<4x6xf16>) {
  %y = kn.mask %x where affine_set<(i, j)[n] : (i - n >= 0)> else 0.0 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.mask' %y: the condition (d0 mod 2) >= 0 is not linear; a form of coordinates times whole numbers is compared with a number
func.func @linear(%x: tensor<4x6xf16>) {
  %y = kn.mask %x where affine_set<(i, j) : (i mod 2 >= 0)> else 0.0 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.mask' %y has no condition; leave it out
func.func @none(%x: tensor<4x6xf16>) {
  %y = kn.mask %x where affine_set<(i, j) : ()> else 0.0 : tensor<4x6xf16> -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.mask' %y computes on floating-point numbers, but %x has elements of i32; insert a 'kn.cast' to f32 first
func.func @integers(%x: tensor<4x6xi32>) {
  %y = kn.mask %x where affine_set<(i, j) : (i >= 1)> else 0.0 : tensor<4x6xi32> -> tensor<4x6xi32>
  func.return
}

// -----

// CHECK: 'kn.mask' %y: the result has 6x4, expected 4x6
func.func @extents(%x: tensor<4x6xf16>) {
  %y = kn.mask %x where affine_set<(i, j) : (i >= 1)> else 0.0 : tensor<4x6xf16> -> tensor<6x4xf16>
  func.return
}
