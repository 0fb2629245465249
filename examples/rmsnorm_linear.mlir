// RMSNorm followed by a linear layer, rms_norm(X[16,4096]) · W[4096,6144], as one custom kernel:
// one of the µGraphs that Mirage's search found for it.  Each of 96 blocks owns 64 columns of W;
// the for-loop walks the 4096 rows; the norm is divided out after the loop.
func.func @rmsnorm_linear(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16>) -> tensor<16x6144xf16> {
  %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<16x4096xf16>, %dw: tensor<4096x6144xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x4096xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x6144xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %am, %ar : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x64xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x6144xf16>
  } : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16>
  func.return %o : tensor<16x6144xf16>
}
