// silu(X·W1) * (X·W2) with X[4096,512] and W1, W2[512,4096]: the epilogue of gemm_silu_mul behind a
// short loop.
func.func @gemm_silu_mul_k512(%x: tensor<4096x512xf16>, %w1: tensor<512x4096xf16> {mugraph.constant}, %w2: tensor<512x4096xf16> {mugraph.constant}) -> tensor<4096x4096xf16> {
  %o = kn.customized %x, %w1, %w2 grid [64, 32, 1] block [256, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<4096x512xf16>, %dw1: tensor<512x4096xf16>, %dw2: tensor<512x4096xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<4096x512xf16> -> !tb.stensor<128x64xf16>
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : tensor<512x4096xf16> -> !tb.stensor<64x64xf16>
    %sw2 = tb.input %dw2 imap [1, -1, -1] fordim 0 : tensor<512x4096xf16> -> !tb.stensor<64x64xf16>
    %m1 = tb.matmul %sx, %sw1 : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %m2 = tb.matmul %sx, %sw2 : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %gate = tb.forloop_accum none %m1 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %up = tb.forloop_accum none %m2 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %open = tb.silu %gate : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %hidden = tb.mul %open, %up : (!tb.stensor<128x64xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<128x64xf16>
    tb.output %hidden omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<4096x4096xf16>
  } : (tensor<4096x512xf16>, tensor<512x4096xf16>, tensor<512x4096xf16>) -> tensor<4096x4096xf16>
  func.return %o : tensor<4096x4096xf16>
}
