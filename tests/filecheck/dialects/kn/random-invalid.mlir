// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.random' %r: the seed is one i64, but %s is 2xi64
func.func @seeds(%s: tensor<2xi64>, %o: tensor<1xi64>) {
  %r = kn.random uniform seed %s offset %o : (tensor<2xi64>, tensor<1xi64>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: 'kn.random' %r: the offset is one i64, but %o is 1xi32
func.func @offset(%s: tensor<1xi64>, %o: tensor<1xi32>) {
  %r = kn.random uniform seed %s offset %o : (tensor<1xi64>, tensor<1xi32>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK: 'kn.random' %r: normal random numbers are f32, but the result has elements of f16; insert a 'kn.cast' after it
func.func @halves(%s: tensor<1xi64>, %o: tensor<1xi64>) {
  %r = kn.random normal seed %s offset %o : (tensor<1xi64>, tensor<1xi64>) -> tensor<4xf16>
  func.return
}

// -----

// CHECK: 'kn.random' %r: bits random numbers are i32, but the result has elements of f32; insert a 'kn.cast' after it
func.func @words(%s: tensor<1xi64>, %o: tensor<1xi64>) {
  %r = kn.random bits seed %s offset %o : (tensor<1xi64>, tensor<1xi64>) -> tensor<4xf32>
  func.return
}
