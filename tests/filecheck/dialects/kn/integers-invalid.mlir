// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.mul' %y computes on floating-point numbers, but %c has elements of i1; insert a 'kn.cast' to f32 first
func.func @mixed(%x: tensor<4xf16>, %c: tensor<4xi1>) {
  %y = kn.mul %x, %c : (tensor<4xf16>, tensor<4xi1>) -> tensor<4xf16>
  func.return
}

// -----

// CHECK: 'kn.add' %y takes operands of one element type, got %x of i64 and %c of i32 and %y of i64; insert a 'kn.cast' to convert one of them
func.func @widths(%x: tensor<4xi64>, %c: tensor<4xi32>) {
  %y = kn.add %x, %c : (tensor<4xi64>, tensor<4xi32>) -> tensor<4xi64>
  func.return
}

// -----

// CHECK: 'kn.exp' %y computes on floating-point numbers, but %x has elements of i64; insert a 'kn.cast' to f32 first
func.func @powers(%x: tensor<4xi64>) {
  %y = kn.exp %x : tensor<4xi64> -> tensor<4xi64>
  func.return
}

// -----

// CHECK: 'kn.fill' %y: 0.5 is no number of i64; make the result f32 and insert a 'kn.cast' to i64 after it
func.func @fraction(%x: tensor<4xi64>) {
  %y = kn.fill %x with 0.5 : tensor<4xi64> -> tensor<4xi64>
  func.return
}

// -----

// CHECK: 'kn.where' %y computes on floating-point numbers, but %c has elements of i32; insert a 'kn.cast' to f32 first
func.func @condition(%c: tensor<4xi32>, %x: tensor<4xf16>) {
  %y = kn.where %c, %x, %x : (tensor<4xi32>, tensor<4xf16>, tensor<4xf16>) -> tensor<4xf16>
  func.return
}

// -----

// CHECK: 'tb.less' %w computes on floating-point numbers, but %s has elements of i64; insert a 'tb.cast' to f32 first
func.func @tiles(%x: tensor<4xi64>) -> tensor<4xi1> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4xi64>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4xi64> -> !tb.stensor<4xi64>
    %w = tb.less %s, %s : (!tb.stensor<4xi64>, !tb.stensor<4xi64>) -> !tb.stensor<4xi1>
    tb.output %w omap [-1, -1, -1] : !tb.stensor<4xi1> -> tensor<4xi1>
  } : (tensor<4xi64>) -> tensor<4xi1>
  func.return %o : tensor<4xi1>
}
