// silu(X·W1) * (X·W2) with X[8,4096] and W1, W2[4096,4096]: both products share the tiles of X, and
// each of 64 blocks owns 64 columns of both weights.
func.func @gated_mlp(%x: tensor<8x4096xf16>, %w1: tensor<4096x4096xf16> {mugraph.constant}, %w2: tensor<4096x4096xf16> {mugraph.constant}) -> tensor<8x4096xf16> {
  %o = kn.customized %x, %w1, %w2 grid [64, 1, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<8x4096xf16>, %dw1: tensor<4096x4096xf16>, %dw2: tensor<4096x4096xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x4096xf16> -> !tb.stensor<8x64xf16>
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : tensor<4096x4096xf16> -> !tb.stensor<64x64xf16>
    %sw2 = tb.input %dw2 imap [1, -1, -1] fordim 0 : tensor<4096x4096xf16> -> !tb.stensor<64x64xf16>
    %m1 = tb.matmul %sx, %sw1 : (!tb.stensor<8x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<8x64xf16>
    %m2 = tb.matmul %sx, %sw2 : (!tb.stensor<8x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<8x64xf16>
    %gate = tb.forloop_accum none %m1 : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %up = tb.forloop_accum none %m2 : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %open = tb.silu %gate : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %hidden = tb.mul %open, %up : (!tb.stensor<8x64xf16>, !tb.stensor<8x64xf16>) -> !tb.stensor<8x64xf16>
    tb.output %hidden omap [1, -1, -1] : !tb.stensor<8x64xf16> -> tensor<8x4096xf16>
  } : (tensor<8x4096xf16>, tensor<4096x4096xf16>, tensor<4096x4096xf16>) -> tensor<8x4096xf16>
  func.return %o : tensor<8x4096xf16>
}
