// silu(X · W1) * (X · W2) for X[8,4096], W1 and W2 [4096,4096], as it is defined.
func.func @gated_mlp(%x: tensor<8x4096xf16>, %w1: tensor<4096x4096xf16>, %w2: tensor<4096x4096xf16>) -> tensor<8x4096xf16> {
  %g = kn.matmul %x, %w1 : (tensor<8x4096xf16>, tensor<4096x4096xf16>) -> tensor<8x4096xf16>
  %s = kn.silu %g : tensor<8x4096xf16> -> tensor<8x4096xf16>
  %u = kn.matmul %x, %w2 : (tensor<8x4096xf16>, tensor<4096x4096xf16>) -> tensor<8x4096xf16>
  %o = kn.mul %s, %u : (tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  func.return %o : tensor<8x4096xf16>
}
