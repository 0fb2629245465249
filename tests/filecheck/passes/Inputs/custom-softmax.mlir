func.func @f(%x: tensor<16x64xf32>) -> tensor<16x64xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf32>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<16x64xf32> -> !tb.stensor<16x64xf32>
    %b = tb.forloop_accum none %a : !tb.stensor<16x64xf32> -> !tb.stensor<16x64xf32>
    %y = tb.custom @row_softmax(%b) : (!tb.stensor<16x64xf32>) -> !tb.stensor<16x64xf16>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf32>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
