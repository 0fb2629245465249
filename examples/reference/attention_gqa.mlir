// softmax(Q · K) · V without scaling and without subtracting the maximum, as it is defined, for
// Q[16,256,64], K[16,64,4096], V[16,4096,64] (grouped queries, batch 8).
func.func @attention_gqa(%q: tensor<16x256x64xf16>, %k: tensor<16x64x4096xf16>, %v: tensor<16x4096x64xf16>) -> tensor<16x256x64xf16> {
  %s = kn.matmul %q, %k : (tensor<16x256x64xf16>, tensor<16x64x4096xf16>) -> tensor<16x256x4096xf16>
  %e = kn.exp %s : tensor<16x256x4096xf16> -> tensor<16x256x4096xf16>
  %l = kn.reduction %e dim 2 : tensor<16x256x4096xf16> -> tensor<16x256x1xf16>
  %p = kn.div %e, %l : (tensor<16x256x4096xf16>, tensor<16x256x1xf16>) -> tensor<16x256x4096xf16>
  %o = kn.matmul %p, %v : (tensor<16x256x4096xf16>, tensor<16x4096x64xf16>) -> tensor<16x256x64xf16>
  func.return %o : tensor<16x256x64xf16>
}
