// A tensor, or a tile, is filled with a number or an infinity.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK: kn.fill %x with -inf : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: tb.fill %s with 5.000000e-01 then [exp, fill(inf)] : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
// CUDA:  tb::Map<ops::Fill<0x3f000000u>, ops::Chain<ops::Exp, ops::Fill<0x7f800000u>>
// CUDA:  kn::Elementwise<ops::Fill<0xff800000u>, Target, Source0>::run(
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %i = kn.fill %x with -inf : tensor<4x8xf16> -> tensor<4x8xf16>
  %o = kn.customized %i grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %w = tb.fill %s with 0.5 then [exp, fill(inf)] : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %w omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %o : tensor<4x8xf16>
}
