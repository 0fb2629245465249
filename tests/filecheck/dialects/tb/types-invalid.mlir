// RUN: mg-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: 'tb.add' %s takes operands of one element type (or f32), got %a of f16 and %b of bf16; insert a 'tb.cast' to convert one of them
func.func @sum(%x: tensor<8x8xf16>, %y: tensor<8x8xbf16>) {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>, %e: tensor<8x8xbf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %b = tb.input %e imap [-1, -1, -1] : tensor<8x8xbf16> -> !tb.stensor<8x8xbf16>
    %s = tb.add %a, %b : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xbf16>) -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>, tensor<8x8xbf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.matmul' %m takes operands of one element type, got %a of f16 and %b of f32; insert a 'tb.cast' to convert one of them
func.func @product(%x: tensor<8x8xf16>, %y: tensor<8x8xf32>) {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>, %e: tensor<8x8xf32>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %b = tb.input %e imap [-1, -1, -1] : tensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %m = tb.matmul %a, %b : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf32>) -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf16>, tensor<8x8xf32>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.exp' %e computes on floating-point numbers, but %a has elements of i32; insert a 'tb.cast' to f32 first
func.func @function(%x: tensor<8x8xi32>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xi32>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xi32> -> !tb.stensor<8x8xi32>
    %e = tb.exp %a : !tb.stensor<8x8xi32> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xi32>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.matmul' %m multiplies i8 into f32; products of integers are of i8 into i32: insert a 'tb.cast' before or after it
func.func @product_of_integers(%x: tensor<8x8xi8>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xi8>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xi8> -> !tb.stensor<8x8xi8>
    %m = tb.matmul %a, %a : (!tb.stensor<8x8xi8>, !tb.stensor<8x8xi8>) -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xi8>) -> tensor<8x8xf32>
  func.return
}

// -----

// CHECK: 'tb.matmul' %m: its epilogue computes on floating-point numbers, but the result has elements of i32; insert a 'tb.cast' to f32 before them
func.func @epilogue(%x: tensor<8x8xi8>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xi8>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xi8> -> !tb.stensor<8x8xi8>
    %m = tb.matmul %a, %a then [exp] : (!tb.stensor<8x8xi8>, !tb.stensor<8x8xi8>) -> !tb.stensor<8x8xi32>
  } : (tensor<8x8xi8>) -> tensor<8x8xi32>
  func.return
}

// -----

// CHECK: 'tb.matmul' %m: precision ieee is for products of f32, not of f16, which are exact; leave it out
func.func @precision(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %m = tb.matmul %a, %a precision ieee : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.cast' %c converts f16 to itself; leave it out
func.func @cast(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %c = tb.cast %a : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}
