// No partition divides: rows and columns of the blocks, k over the iterations; exp(0) must not be added up.
func.func @fuzzed(%signed: tensor<37x50xf16>, %positive: tensor<50x29xf16>) -> tensor<37x29xf16> {
  %o = kn.customized %signed, %positive grid [3, 2, 1] block [64, 1, 1] forloop 3 {
  ^bb0(%dx: tensor<37x50xf16>, %dw: tensor<50x29xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<37x50xf16> -> !tb.stensor<13x17xf16>
    %sw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<50x29xf16> -> !tb.stensor<17x15xf16>
    %e = tb.exp %sx : !tb.stensor<13x17xf16> -> !tb.stensor<13x17xf16>
    %m = tb.matmul %e, %sw : (!tb.stensor<13x17xf16>, !tb.stensor<17x15xf16>) -> !tb.stensor<13x15xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<13x15xf16> -> !tb.stensor<13x15xf32>
    tb.output %a omap [0, 1, -1] : !tb.stensor<13x15xf32> -> tensor<37x29xf16>
  } : (tensor<37x50xf16>, tensor<50x29xf16>) -> tensor<37x29xf16>
  func.return %o : tensor<37x29xf16>
}
