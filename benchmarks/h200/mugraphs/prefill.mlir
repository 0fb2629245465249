// exp(Q·K)·V divided by its row sums, for 32 heads of 4096 queries over 4096 keys of 128, without a
// causal mask.  A block a head and 64 queries.
func.func @prefill(%q: tensor<32x4096x128xf16>, %k: tensor<32x128x4096xf16>, %v: tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16> {
  %o = kn.customized %q, %k, %v grid [32, 64, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dq: tensor<32x4096x128xf16>, %dk: tensor<32x128x4096xf16>, %dv: tensor<32x4096x128xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<32x4096x128xf16> -> !tb.stensor<1x64x128xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<32x128x4096xf16> -> !tb.stensor<1x128x64xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<32x4096x128xf16> -> !tb.stensor<1x64x128xf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x128xf16>, !tb.stensor<1x128x64xf16>) -> !tb.stensor<1x64x64xf16>
    %weights = tb.exp %scores : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x128xf16>) -> !tb.stensor<1x64x128xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<1x64x128xf16> -> !tb.stensor<1x64x128xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<1x64x128xf16>, !tb.stensor<1x64x1xf16>) -> !tb.stensor<1x64x128xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x64x128xf16> -> tensor<32x4096x128xf16>
  } : (tensor<32x4096x128xf16>, tensor<32x128x4096xf16>, tensor<32x4096x128xf16>) -> tensor<32x4096x128xf16>
  func.return %o : tensor<32x4096x128xf16>
}
