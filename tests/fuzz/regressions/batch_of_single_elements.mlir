// Padding keeps the leading dimensions of the product from merging into one batch.
func.func @fuzzed(%signed: tensor<5x3x1x16xf16>, %positive: tensor<5x3x16x1xf16>)
    -> tensor<5x3x1x1xf16> {
  %0 = kn.matmul %signed, %positive
    : (tensor<5x3x1x16xf16>, tensor<5x3x16x1xf16>) -> tensor<5x3x1x1xf16>
  func.return %0 : tensor<5x3x1x1xf16>
}
