// X · W + (X · A) · B for X[16,256], W[256,4096], A[256,16], B[16,4096], as it is defined.
func.func @lora(%x: tensor<16x256xf16>, %w: tensor<256x4096xf16>, %a: tensor<256x16xf16>, %b: tensor<16x4096xf16>) -> tensor<16x4096xf16> {
  %base = kn.matmul %x, %w : (tensor<16x256xf16>, tensor<256x4096xf16>) -> tensor<16x4096xf16>
  %down = kn.matmul %x, %a : (tensor<16x256xf16>, tensor<256x16xf16>) -> tensor<16x16xf16>
  %up = kn.matmul %down, %b : (tensor<16x16xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %o = kn.add %base, %up : (tensor<16x4096xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  func.return %o : tensor<16x4096xf16>
}
