// Attention of 32 queries over 128 keys of 16, for 2 heads.
func.func @attention(%q: tensor<2x32x16xf16>, %k: tensor<2x16x128xf16>, %v: tensor<2x128x16xf16>) -> tensor<2x32x16xf16> {
  %o = kn.customized %q, %k, %v grid [2, 2, 1] block [64, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<2x32x16xf16>, %dk: tensor<2x16x128xf16>, %dv: tensor<2x128x16xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<2x32x16xf16> -> !tb.stensor<1x16x16xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<2x16x128xf16> -> !tb.stensor<1x16x16xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<2x128x16xf16> -> !tb.stensor<1x16x16xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x16xf16>) -> !tb.stensor<1x16x16xf16>
    %e = tb.exp %s : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %p = tb.matmul %e, %sv : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x16xf16>) -> !tb.stensor<1x16x16xf16>
    %n = tb.forloop_accum none %p : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x1xf16>
    %r = tb.div %n, %l : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x1xf16>) -> !tb.stensor<1x16x16xf16>
    tb.output %r omap [0, 1, -1] : !tb.stensor<1x16x16xf16> -> tensor<2x32x16xf16>
  } : (tensor<2x32x16xf16>, tensor<2x16x128xf16>, tensor<2x128x16xf16>) -> tensor<2x32x16xf16>
  func.return %o : tensor<2x32x16xf16>
}
