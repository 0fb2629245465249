// softmax(Q · K) · V without scaling and without subtracting the maximum, as it is defined, for
// Q[1,1024,64], K[1,64,4096], V[1,4096,64] (one head for all queries).
// `kn` has no sum over a dimension, so the sums of the rows are a threadblock graph of one
// block.
func.func @attention_mqa(%q: tensor<1x1024x64xf16>, %k: tensor<1x64x4096xf16>, %v: tensor<1x4096x64xf16>) -> tensor<1x1024x64xf16> {
  %s = kn.matmul %q, %k : (tensor<1x1024x64xf16>, tensor<1x64x4096xf16>) -> tensor<1x1024x4096xf16>
  %e = kn.exp %s : tensor<1x1024x4096xf16> -> tensor<1x1024x4096xf16>
  %l = kn.customized %e grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%de: tensor<1x1024x4096xf16>):
    %se = tb.input %de imap [0, -1, -1] fordim 2 : tensor<1x1024x4096xf16> -> !tb.stensor<1x1024x4096xf16>
    %sum = tb.forloop_accum sum %se : !tb.stensor<1x1024x4096xf16> -> !tb.stensor<1x1024x1xf16>
    tb.output %sum omap [0, -1, -1] : !tb.stensor<1x1024x1xf16> -> tensor<1x1024x1xf16>
  } : (tensor<1x1024x4096xf16>) -> tensor<1x1024x1xf16>
  %p = kn.div %e, %l : (tensor<1x1024x4096xf16>, tensor<1x1024x1xf16>) -> tensor<1x1024x4096xf16>
  %o = kn.matmul %p, %v : (tensor<1x1024x4096xf16>, tensor<1x4096x64xf16>) -> tensor<1x1024x64xf16>
  func.return %o : tensor<1x1024x64xf16>
}
