// rms_norm(X) · W with X[16,4096] and W[4096,6144]: each of 96 blocks owns 64 columns of W, the loop
// walks the 4096 rows, and the norm is divided out after it.
func.func @rmsnorm_bs8(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16> {mugraph.constant}) -> tensor<16x6144xf16> {
  %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<16x4096xf16>, %dw: tensor<4096x6144xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x4096xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x6144xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %norm = tb.forloop_accum rms %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %product, %norm : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x64xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x6144xf16>
  } : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16>
  func.return %o : tensor<16x6144xf16>
}
