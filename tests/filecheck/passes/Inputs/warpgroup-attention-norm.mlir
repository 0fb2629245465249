// exp(Q·K)·V divided by its row sums, of queries with a norm of 1: 128 queries by two warp groups, 64 keys an iteration.
func.func @normed(%q: tensor<1x256x64xf16>, %k: tensor<1x64x512xf16>, %v: tensor<1x512x64xf16>) -> tensor<1x256x64xf16> {
  %o = kn.customized %q, %k, %v grid [1, 2, 1] block [256, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<1x256x64xf16>, %dk: tensor<1x64x512xf16>, %dv: tensor<1x512x64xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<1x256x64xf16> -> !tb.stensor<1x128x64xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<1x64x512xf16> -> !tb.stensor<1x64x64xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<1x512x64xf16> -> !tb.stensor<1x64x64xf16>
    %nq = tb.rms_norm %sq : !tb.stensor<1x128x64xf16> -> !tb.stensor<1x128x64xf16>
    %scores = tb.matmul %nq, %sk : (!tb.stensor<1x128x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x128x64xf16>
    %weights = tb.exp %scores : !tb.stensor<1x128x64xf16> -> !tb.stensor<1x128x64xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x128x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x128x64xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<1x128x64xf16> -> !tb.stensor<1x128x64xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<1x128x64xf16> -> !tb.stensor<1x128x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<1x128x64xf16>, !tb.stensor<1x128x1xf16>) -> !tb.stensor<1x128x64xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x128x64xf16> -> tensor<1x256x64xf16>
  } : (tensor<1x256x64xf16>, tensor<1x64x512xf16>, tensor<1x512x64xf16>) -> tensor<1x256x64xf16>
  func.return %o : tensor<1x256x64xf16>
}
