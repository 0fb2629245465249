// Comparisons are 1 or 0, and a number is a tensor filled with it; at both levels.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK: kn.fill %x with 5.000000e-01 : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK: kn.less %x, %h : (tensor<4x8xf16>, tensor<4x8xf32>) -> tensor<4x8xf16>
// CHECK: tb.less_equal %s, %s then [fill(1.5)] : (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
// CUDA:  tb::Map<ops::LessEqual, ops::Chain<ops::Fill<0x3fc00000u>>,
// CUDA:  kn::Elementwise<ops::Fill<0x3f000000u>, Target, Source0>::run(
// CUDA:  kn::Elementwise<ops::Less, Target, Source0, Source1>::run(
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %h = kn.fill %x with 0.5 : tensor<4x8xf16> -> tensor<4x8xf32>
  %z = kn.less %x, %h : (tensor<4x8xf16>, tensor<4x8xf32>) -> tensor<4x8xf16>
  %o = kn.customized %z grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %w = tb.less_equal %s, %s then [fill(1.5)] : (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
    tb.output %w omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %o : tensor<4x8xf16>
}
