// softmax(Q · K) · V without scaling and without subtracting the maximum, as it is defined, for
// Q[256,16,64], K[256,64,4096], V[256,4096,64] (a head for every query head, batch 8).
func.func @attention_mha(%q: tensor<256x16x64xf16>, %k: tensor<256x64x4096xf16>, %v: tensor<256x4096x64xf16>) -> tensor<256x16x64xf16> {
  %s = kn.matmul %q, %k : (tensor<256x16x64xf16>, tensor<256x64x4096xf16>) -> tensor<256x16x4096xf16>
  %e = kn.exp %s : tensor<256x16x4096xf16> -> tensor<256x16x4096xf16>
  %l = kn.reduction %e dim 2 : tensor<256x16x4096xf16> -> tensor<256x16x1xf16>
  %p = kn.div %e, %l : (tensor<256x16x4096xf16>, tensor<256x16x1xf16>) -> tensor<256x16x4096xf16>
  %o = kn.matmul %p, %v : (tensor<256x16x4096xf16>, tensor<256x4096x64xf16>) -> tensor<256x16x64xf16>
  func.return %o : tensor<256x16x64xf16>
}
