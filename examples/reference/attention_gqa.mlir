// softmax(Q · K) · V without scaling and without subtracting the maximum, as it is defined, for
// Q[16,256,64], K[16,64,4096], V[16,4096,64] (grouped queries, batch 8).
// `kn` has no sum over a dimension, so the sums of the rows are a threadblock graph, a block for
// each of the 16 heads.
func.func @attention_gqa(%q: tensor<16x256x64xf16>, %k: tensor<16x64x4096xf16>, %v: tensor<16x4096x64xf16>) -> tensor<16x256x64xf16> {
  %s = kn.matmul %q, %k : (tensor<16x256x64xf16>, tensor<16x64x4096xf16>) -> tensor<16x256x4096xf16>
  %e = kn.exp %s : tensor<16x256x4096xf16> -> tensor<16x256x4096xf16>
  %l = kn.customized %e grid [16, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%de: tensor<16x256x4096xf16>):
    %se = tb.input %de imap [0, -1, -1] fordim 2 : tensor<16x256x4096xf16> -> !tb.stensor<1x256x4096xf16>
    %sum = tb.forloop_accum sum %se : !tb.stensor<1x256x4096xf16> -> !tb.stensor<1x256x1xf16>
    tb.output %sum omap [0, -1, -1] : !tb.stensor<1x256x1xf16> -> tensor<16x256x1xf16>
  } : (tensor<16x256x4096xf16>) -> tensor<16x256x1xf16>
  %p = kn.div %e, %l : (tensor<16x256x4096xf16>, tensor<16x256x1xf16>) -> tensor<16x256x4096xf16>
  %o = kn.matmul %p, %v : (tensor<16x256x4096xf16>, tensor<16x4096x64xf16>) -> tensor<16x256x64xf16>
  func.return %o : tensor<16x256x64xf16>
}
