// rms_norm(X) · W for X[16,4096], W[4096,6144], as it is defined: the norm of the rows, then the
// product.
func.func @rmsnorm_linear(%x: tensor<16x4096xf16>, %w: tensor<4096x6144xf16>) -> tensor<16x6144xf16> {
  %n = kn.rms_norm %x over [4096] : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %o = kn.matmul %n, %w : (tensor<16x4096xf16>, tensor<4096x6144xf16>) -> tensor<16x6144xf16>
  func.return %o : tensor<16x6144xf16>
}
