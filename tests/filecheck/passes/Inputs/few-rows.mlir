// rms_norm(X) · W of 16 rows: two blocks of 64 columns each, then four of 32.
func.func @wide(%x: tensor<16x512xf16>, %w: tensor<512x128xf16>) -> tensor<16x128xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x128xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %am, %ar : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x64xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x128xf16>
  } : (tensor<16x512xf16>, tensor<512x128xf16>) -> tensor<16x128xf16>
  func.return %o : tensor<16x128xf16>
}

func.func @narrow(%x: tensor<16x512xf16>, %w: tensor<512x128xf16>) -> tensor<16x128xf16> {
  %o = kn.customized %x, %w grid [4, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x128xf16> -> !tb.stensor<128x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x128xf16>
  } : (tensor<16x512xf16>, tensor<512x128xf16>) -> tensor<16x128xf16>
  func.return %o : tensor<16x128xf16>
}
