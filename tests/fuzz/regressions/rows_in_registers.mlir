// Rows that two warps share, in a loop: each norm passes through one number a warp, in two stages.
func.func @rows_in_registers(%positive: tensor<6x1000xf16>) -> tensor<6x250xf16> {
  %o = kn.customized %positive grid [6, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%d: tensor<6x1000xf16>):
    %x = tb.input %d imap [0, -1, -1] fordim 1 : tensor<6x1000xf16> -> !tb.stensor<1x250xf16>
    %n = tb.rms_norm %x : !tb.stensor<1x250xf16> -> !tb.stensor<1x250xf16>
    %e = tb.sigmoid %n : !tb.stensor<1x250xf16> -> !tb.stensor<1x250xf16>
    %s = tb.reduction %e dim 1 : !tb.stensor<1x250xf16> -> !tb.stensor<1x1xf16>
    %p = tb.div %e, %s : (!tb.stensor<1x250xf16>, !tb.stensor<1x1xf16>) -> !tb.stensor<1x250xf16>
    %q = tb.add %p, %e : (!tb.stensor<1x250xf16>, !tb.stensor<1x250xf16>) -> !tb.stensor<1x250xf16>
    %a = tb.forloop_accum none %q : !tb.stensor<1x250xf16> -> !tb.stensor<1x250xf16>
    %z = tb.rms_norm %a : !tb.stensor<1x250xf16> -> !tb.stensor<1x250xf16>
    tb.output %z omap [0, -1, -1] : !tb.stensor<1x250xf16> -> tensor<6x250xf16>
  } : (tensor<6x1000xf16>) -> tensor<6x250xf16>
  func.return %o : tensor<6x250xf16>
}
