// rms_norm(X) · W for X[16,4096], W[4096,6144], as it is defined: the norm of the rows, then the
// product.  `kn` has no norm of its own, so that is a threadblock graph of one block.
func.func @rmsnorm_linear(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16>) -> tensor<16x6144xf16> {
  %n = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x4096xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<16x4096xf16> -> !tb.stensor<16x4096xf16>
    %norm = tb.rms_norm %sx : !tb.stensor<16x4096xf16> -> !tb.stensor<16x4096xf16>
    %once = tb.forloop_accum none %norm : !tb.stensor<16x4096xf16> -> !tb.stensor<16x4096xf16>
    tb.output %once omap [-1, -1, -1] : !tb.stensor<16x4096xf16> -> tensor<16x4096xf16>
  } : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %o = kn.matmul %n, %w : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16>
  func.return %o : tensor<16x6144xf16>
}
