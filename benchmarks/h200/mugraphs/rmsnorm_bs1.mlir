// rms_norm(X) · W with X[2,4096] and W[4096,6144]: each of 96 blocks owns 64 columns of W, the loop
// walks the 4096 rows, and the norm is divided out after it.
func.func @rmsnorm_bs1(%x: tensor<2x4096xf16>, %w: tensor<4096x6144xf16> {mugraph.constant}) -> tensor<2x6144xf16> {
  %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<2x4096xf16>, %dw: tensor<4096x6144xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<2x4096xf16> -> !tb.stensor<2x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x6144xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<2x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<2x64xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<2x64xf16> -> !tb.stensor<2x64xf16>
    %norm = tb.forloop_accum rms %sx : !tb.stensor<2x128xf16> -> !tb.stensor<2x1xf16>
    %d = tb.div %product, %norm : (!tb.stensor<2x64xf16>, !tb.stensor<2x1xf16>) -> !tb.stensor<2x64xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<2x64xf16> -> tensor<2x6144xf16>
  } : (tensor<2x4096xf16>, tensor<4096x6144xf16>) -> tensor<2x6144xf16>
  func.return %o : tensor<2x6144xf16>
}
