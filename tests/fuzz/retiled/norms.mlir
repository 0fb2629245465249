// A matrix product divided by the root mean squares of its rows.
func.func @norms(%x: tensor<16x128xf16>, %w: tensor<128x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [64, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x128xf16>, %dw: tensor<128x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x128xf16> -> !tb.stensor<16x16xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<128x64xf16> -> !tb.stensor<16x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x16xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %r = tb.forloop_accum rms %sx : !tb.stensor<16x16xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %a, %r : (!tb.stensor<16x32xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x32xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x64xf16>
  } : (tensor<16x128xf16>, tensor<128x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
