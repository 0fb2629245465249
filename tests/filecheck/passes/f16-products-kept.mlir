// Rows that the loop moves may have any largest number in each iteration; they stay bf16.
// RUN: mg-opt --f16-products %s | filecheck %s

func.func @moving(%x: tensor<4x128xbf16>, %w: tensor<128x64xf8E4M3FN>) -> tensor<4x64xbf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 2 plan <tiles = written> {
  ^bb0(%dx: tensor<4x128xbf16>, %dw: tensor<128x64xf8E4M3FN>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<4x128xbf16> -> !tb.stensor<4x64xbf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<128x64xf8E4M3FN> -> !tb.stensor<64x64xf8E4M3FN>
    %w16 = tb.cast %sw : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xbf16>
    %m = tb.matmul %sx, %w16 : (!tb.stensor<4x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<4x64xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<4x64xf32> -> !tb.stensor<4x64xbf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<4x64xbf16> -> tensor<4x64xbf16>
  } : (tensor<4x128xbf16>, tensor<128x64xf8E4M3FN>) -> tensor<4x64xbf16>
  func.return %o : tensor<4x64xbf16>
}

// CHECK-LABEL: @moving
// CHECK: tb.matmul %sx, %w16 : (!tb.stensor<4x64xbf16>, !tb.stensor<64x64xbf16>)
