// Five stages of 40 KB, and tiles of 32 KB, which do not fit beside them.
func.func @wide(%x: tensor<64x448xf16>, %w: tensor<448x768xf16>) -> tensor<64x768xf16> {
  %o = kn.customized %x, %w grid [3, 1, 1] block [128, 1, 1] forloop 7 {
  ^bb0(%dx: tensor<64x448xf16>, %dw: tensor<448x768xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x448xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<448x768xf16> -> !tb.stensor<64x256xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x256xf16>) -> !tb.stensor<64x256xf16>
    %total = tb.forloop_accum none %m : !tb.stensor<64x256xf16> -> !tb.stensor<64x256xf16>
    tb.output %total omap [1, -1, -1] : !tb.stensor<64x256xf16> -> tensor<64x768xf16>
  } : (tensor<64x448xf16>, tensor<448x768xf16>) -> tensor<64x768xf16>
  func.return %o : tensor<64x768xf16>
}
