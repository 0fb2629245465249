// RUN: mg-opt --retile %s | filecheck %s

// A kernel without a loop gets one along the product's depth: what first gives parts of a sum is
// accumulated, and what is computed of it stands after the loop.
// CHECK-LABEL: func.func @rotated
// CHECK:      forloop 4
// CHECK:      %p = tb.matmul %a, %b
// CHECK-NEXT: %p_1 = tb.forloop_accum none %p
// CHECK-NEXT: tb.input %cs imap
// CHECK-NEXT: %r = tb.mul %p_1, %c
// CHECK-NEXT: tb.output %r
func.func @rotated(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>, %cos: tensor<16x32xf16>) -> tensor<16x32xf16> {
  %y = kn.customized %x, %w, %cos grid [1, 1, 1] block [128, 1, 1] forloop 1 plan <forloop = 4> {
  ^bb0(%xs: tensor<16x64xf16>, %ws: tensor<64x32xf16>, %cs: tensor<16x32xf16>):
    %a = tb.input %xs imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %b = tb.input %ws imap [-1, -1, -1] : tensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %p = tb.matmul %a, %b : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<16x32xf16>
    %c = tb.input %cs imap [-1, -1, -1] : tensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %r = tb.mul %p, %c : (!tb.stensor<16x32xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<16x32xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x32xf16>
  } : (tensor<16x64xf16>, tensor<64x32xf16>, tensor<16x32xf16>) -> tensor<16x32xf16>
  func.return %y : tensor<16x32xf16>
}
