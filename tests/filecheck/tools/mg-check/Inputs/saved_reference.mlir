func.func @reference(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>) -> tensor<16x32xf16> {
  %n = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 0 : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %norm = tb.rms_norm %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %once = tb.forloop_accum none %norm : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    tb.output %once omap [0, -1, -1] : !tb.stensor<8x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  %o = kn.matmul %n, %w : (tensor<16x64xf16>, tensor<64x32xf16>) -> tensor<16x32xf16>
  func.return %o : tensor<16x32xf16>
}
