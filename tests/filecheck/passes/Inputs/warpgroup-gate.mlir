// silu(X·W1) * (X·W2), a block 128 rows and 128 columns of both products.
func.func @gemm_silu_mul(%x: tensor<512x512xf16>, %w1: tensor<512x512xf16> {mugraph.constant}, %w2: tensor<512x512xf16> {mugraph.constant}) -> tensor<512x512xf16> {
  %o = kn.customized %x, %w1, %w2 grid [4, 4, 1] block [256, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<512x512xf16>, %dw1: tensor<512x512xf16>, %dw2: tensor<512x512xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<512x512xf16> -> !tb.stensor<128x64xf16>
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : tensor<512x512xf16> -> !tb.stensor<64x128xf16>
    %sw2 = tb.input %dw2 imap [1, -1, -1] fordim 0 : tensor<512x512xf16> -> !tb.stensor<64x128xf16>
    %m1 = tb.matmul %sx, %sw1 : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf16>
    %m2 = tb.matmul %sx, %sw2 : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf16>
    %gate = tb.forloop_accum none %m1 : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %up = tb.forloop_accum none %m2 : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %open = tb.silu %gate : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %hidden = tb.mul %open, %up : (!tb.stensor<128x128xf16>, !tb.stensor<128x128xf16>) -> !tb.stensor<128x128xf16>
    tb.output %hidden omap [1, 0, -1] : !tb.stensor<128x128xf16> -> tensor<512x512xf16>
  } : (tensor<512x512xf16>, tensor<512x512xf16>, tensor<512x512xf16>) -> tensor<512x512xf16>
  func.return %o : tensor<512x512xf16>
}
