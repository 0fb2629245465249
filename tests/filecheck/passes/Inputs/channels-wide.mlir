// Tiles wider than a row of the widest swizzle: boxes side by side.
func.func @wide(%x: tensor<16x1024xf16>, %w: tensor<1024x192xf16>) -> tensor<16x192xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [64, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x1024xf16>, %dw: tensor<1024x192xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x1024xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x192xf16> -> !tb.stensor<128x96xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x96xf16>) -> !tb.stensor<16x96xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x96xf16> -> !tb.stensor<16x96xf16>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %am, %ar : (!tb.stensor<16x96xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x96xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x96xf16> -> tensor<16x192xf16>
  } : (tensor<16x1024xf16>, tensor<1024x192xf16>) -> tensor<16x192xf16>
  func.return %o : tensor<16x192xf16>
}
