func.func @reference(%x: tensor<4x48xf16>, %w: tensor<48x24xf16>) -> tensor<4x24xf16> {
  %n = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<4x48xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<4x48xf16> -> !tb.stensor<4x48xf16>
    %norm = tb.rms_norm %sx : !tb.stensor<4x48xf16> -> !tb.stensor<4x48xf16>
    %once = tb.forloop_accum none %norm : !tb.stensor<4x48xf16> -> !tb.stensor<4x48xf16>
    tb.output %once omap [-1, -1, -1] : !tb.stensor<4x48xf16> -> tensor<4x48xf16>
  } : (tensor<4x48xf16>) -> tensor<4x48xf16>
  %o = kn.matmul %n, %w : (tensor<4x48xf16>, tensor<48x24xf16>) -> tensor<4x24xf16>
  func.return %o : tensor<4x24xf16>
}
