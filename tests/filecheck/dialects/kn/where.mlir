// A function of three tensors, at both levels.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK: kn.where %c, %x, %y : (tensor<4x1xf16>, tensor<4x8xf16>, tensor<1x8xf16>) -> tensor<4x8xf16>
// CHECK: tb.where %s, %s, %s then [exp] : (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
// CUDA:  tb::Map<ops::Where, ops::Chain<ops::Exp>,
// CUDA:  kn::Elementwise<ops::Where, Target, Source0, Source1, Source2>::run(
func.func @f(%c: tensor<4x1xf16>, %x: tensor<4x8xf16>, %y: tensor<1x8xf16>) -> tensor<4x8xf16> {
  %z = kn.where %c, %x, %y : (tensor<4x1xf16>, tensor<4x8xf16>, tensor<1x8xf16>) -> tensor<4x8xf16>
  %o = kn.customized %z grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %w = tb.where %s, %s, %s then [exp] : (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<4x8xf16>
    tb.output %w omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %o : tensor<4x8xf16>
}
