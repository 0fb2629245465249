func.func @without_norm(%x: tensor<4x48xf16>, %w: tensor<48x24xf16>) -> tensor<4x24xf16> {
  %o = kn.matmul %x, %w : (tensor<4x48xf16>, tensor<48x24xf16>) -> tensor<4x24xf16>
  func.return %o : tensor<4x24xf16>
}
