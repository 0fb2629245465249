// softmax(Q · K) · V without scaling and without subtracting the maximum, as it is defined, for
// Q[1,1024,64], K[1,64,4096], V[1,4096,64] (one head for all queries).
func.func @attention_mqa(%q: tensor<1x1024x64xf16>, %k: tensor<1x64x4096xf16>, %v: tensor<1x4096x64xf16>) -> tensor<1x1024x64xf16> {
  %s = kn.matmul %q, %k : (tensor<1x1024x64xf16>, tensor<1x64x4096xf16>) -> tensor<1x1024x4096xf16>
  %e = kn.exp %s : tensor<1x1024x4096xf16> -> tensor<1x1024x4096xf16>
  %l = kn.reduction %e dim 2 : tensor<1x1024x4096xf16> -> tensor<1x1024x1xf16>
  %p = kn.div %e, %l : (tensor<1x1024x4096xf16>, tensor<1x1024x1xf16>) -> tensor<1x1024x4096xf16>
  %o = kn.matmul %p, %v : (tensor<1x1024x4096xf16>, tensor<1x4096x64xf16>) -> tensor<1x1024x64xf16>
  func.return %o : tensor<1x1024x64xf16>
}
