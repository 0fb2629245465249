// Four pairs of matrices an iteration, with a scale each, are work of four warps.
// RUN: mg-opt --slice-products --decompose-threadblock %s | filecheck %s
// RUN: mg-opt --slice-products %s | mg-check - %s | filecheck %s --check-prefix PROOF

func.func @f(%w: tensor<8x64x32xi8>, %s: tensor<8x1x32xbf16>, %x: tensor<8x16x64xbf16>) -> tensor<1x16x32xbf16> {
  %o = kn.customized %w, %s, %x grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dw: tensor<8x64x32xi8>, %ds: tensor<8x1x32xbf16>, %dx: tensor<8x16x64xbf16>):
    %p = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<8x64x32xi8> -> !tb.stensor<4x64x32xi8>
    %b = tb.cast %p : !tb.stensor<4x64x32xi8> -> !tb.stensor<4x64x32xbf16>
    %sc = tb.input %ds imap [-1, -1, -1] fordim 0 : tensor<8x1x32xbf16> -> !tb.stensor<4x1x32xbf16>
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<8x16x64xbf16> -> !tb.stensor<4x16x64xbf16>
    %m = tb.matmul %sx, %b : (!tb.stensor<4x16x64xbf16>, !tb.stensor<4x64x32xbf16>) -> !tb.stensor<4x16x32xf32>
    %d = tb.mul %m, %sc : (!tb.stensor<4x16x32xf32>, !tb.stensor<4x1x32xbf16>) -> !tb.stensor<4x16x32xf32>
    %r = tb.reduction %d dim 0 : !tb.stensor<4x16x32xf32> -> !tb.stensor<1x16x32xf32>
    %a = tb.forloop_accum none %r : !tb.stensor<1x16x32xf32> -> !tb.stensor<1x16x32xbf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<1x16x32xbf16> -> tensor<1x16x32xbf16>
  } : (tensor<8x64x32xi8>, tensor<8x1x32xbf16>, tensor<8x16x64xbf16>) -> tensor<1x16x32xbf16>
  func.return %o : tensor<1x16x32xbf16>
}

// CHECK-LABEL: @f
// CHECK:      %[[M:.*]] = tb.matmul sliced
// CHECK-NEXT: %[[S:.*]] = tb.mul %[[M]]
// CHECK-NEXT: %[[A:.*]] = tb.forloop_accum none %[[S]] : !tb.stensor<4x16x32xf32> -> !tb.stensor<4x16x32xf32>
// CHECK-NEXT: %[[R:.*]] = tb.reduction %[[A]] dim 0 : !tb.stensor<4x16x32xf32> -> !tb.stensor<1x16x32xbf16>
// CHECK-NEXT: tb.output %[[R]]

// PROOF: proved equal
