// Truths, and numbers of tokens: what is computed of integers alone, and conditions on other numbers.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.fill %i with 7.000000e+00 : tensor<4x1xi64> -> tensor<4x1xi64>
// CHECK: kn.less %i, %n : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi1>
// CHECK: kn.mul %l, %c : (tensor<4x1xi1>, tensor<4x8xi1>) -> tensor<4x8xi1>
// CHECK: kn.where %b, %x, %y : (tensor<4x8xi1>, tensor<4x8xf16>, tensor<4x8xf32>) -> tensor<4x8xf16>
// CHECK: tb.where %t, %s, %s : (!tb.stensor<4x8xi1>, !tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
// CUDA:  bool t
// CUDA:  kn::Elementwise<ops::Less, Target, Source0, Source1>::run(
// SAME:  proved equal
func.func @f(%i: tensor<4x1xi64>, %c: tensor<4x8xi1>, %x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %n = kn.fill %i with 7.0 : tensor<4x1xi64> -> tensor<4x1xi64>
  %l = kn.less %i, %n : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi1>
  %b = kn.mul %l, %c : (tensor<4x1xi1>, tensor<4x8xi1>) -> tensor<4x8xi1>
  %y = kn.fill %c with -inf : tensor<4x8xi1> -> tensor<4x8xf32>
  %z = kn.where %b, %x, %y : (tensor<4x8xi1>, tensor<4x8xf16>, tensor<4x8xf32>) -> tensor<4x8xf16>
  %o = kn.customized %z, %b grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>, %e: tensor<4x8xi1>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %t = tb.input %e imap [-1, -1, -1] : tensor<4x8xi1> -> !tb.stensor<4x8xi1>
    %w = tb.where %t, %s, %s : (!tb.stensor<4x8xi1>, !tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
    tb.output %w omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>, tensor<4x8xi1>) -> tensor<4x8xf16>
  func.return %o : tensor<4x8xf16>
}
