// silu(X·W1) * (X·W2) of 64 x 64, by one warp group.
func.func @pair(%x: tensor<64x64xf16>, %w1: tensor<64x64xf16>, %w2: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %w1, %w2 grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<64x64xf16>, %dw1: tensor<64x64xf16>, %dw2: tensor<64x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x64xf16> -> !tb.stensor<64x32xf16>
    %sw1 = tb.input %dw1 imap [-1, -1, -1] fordim 0 : tensor<64x64xf16> -> !tb.stensor<32x64xf16>
    %sw2 = tb.input %dw2 imap [-1, -1, -1] fordim 0 : tensor<64x64xf16> -> !tb.stensor<32x64xf16>
    %m1 = tb.matmul %sx, %sw1 : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %m2 = tb.matmul %sx, %sw2 : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %gate = tb.forloop_accum none %m1 : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %up = tb.forloop_accum none %m2 : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %open = tb.silu %gate : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %hidden = tb.mul %open, %up : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    tb.output %hidden omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
