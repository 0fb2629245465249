func.func @relu(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %q = kn.cast %x : tensor<4x8xf16> -> tensor<4x8xi8>
  %y = kn.cast %q : tensor<4x8xi8> -> tensor<4x8xf16>
  %r = kn.relu %y : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %r : tensor<4x8xf16>
}
