// Three pairs of matrices are not work of four warps.
// RUN: mg-opt --slice-products %s | filecheck %s

func.func @g(%w: tensor<6x64x32xi8>, %x: tensor<6x16x64xbf16>) -> tensor<1x16x32xbf16> {
  %o = kn.customized %w, %x grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dw: tensor<6x64x32xi8>, %dx: tensor<6x16x64xbf16>):
    %p = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<6x64x32xi8> -> !tb.stensor<3x64x32xi8>
    %b = tb.cast %p : !tb.stensor<3x64x32xi8> -> !tb.stensor<3x64x32xbf16>
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<6x16x64xbf16> -> !tb.stensor<3x16x64xbf16>
    %m = tb.matmul %sx, %b : (!tb.stensor<3x16x64xbf16>, !tb.stensor<3x64x32xbf16>) -> !tb.stensor<3x16x32xf32>
    %r = tb.reduction %m dim 0 : !tb.stensor<3x16x32xf32> -> !tb.stensor<1x16x32xf32>
    %a = tb.forloop_accum none %r : !tb.stensor<1x16x32xf32> -> !tb.stensor<1x16x32xbf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<1x16x32xbf16> -> tensor<1x16x32xbf16>
  } : (tensor<6x64x32xi8>, tensor<6x16x64xbf16>) -> tensor<1x16x32xbf16>
  func.return %o : tensor<1x16x32xbf16>
}

// CHECK-LABEL: @g
// CHECK-NOT:  sliced
