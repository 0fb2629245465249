// exp(Q·K)·V divided by its row sums, for 2 heads of 256 queries over 4096 keys
// of 64 (grouped queries, batch 1).  A block a head and 64 queries.
func.func @gqa_bs1(%q: tensor<2x256x64xf16>, %k: tensor<2x64x4096xf16>, %v: tensor<2x4096x64xf16>) -> tensor<2x256x64xf16> {
  %o = kn.customized %q, %k, %v grid [2, 4, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dq: tensor<2x256x64xf16>, %dk: tensor<2x64x4096xf16>, %dv: tensor<2x4096x64xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<2x256x64xf16> -> !tb.stensor<1x64x64xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<2x64x4096xf16> -> !tb.stensor<1x64x64xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<2x4096x64xf16> -> !tb.stensor<1x64x64xf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %weights = tb.exp %scores : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x1xf16>) -> !tb.stensor<1x64x64xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x64x64xf16> -> tensor<2x256x64xf16>
  } : (tensor<2x256x64xf16>, tensor<2x64x4096xf16>, tensor<2x4096x64xf16>) -> tensor<2x256x64xf16>
  func.return %o : tensor<2x256x64xf16>
}
