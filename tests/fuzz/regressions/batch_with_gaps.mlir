// The user's leading dimensions are in another order than those of the other tensors.
func.func @fuzzed(%signed: tensor<2x3x4x5xf16, #cute.layout<(2,3,4,5):(20,40,5,1)>>,
                  %positive: tensor<2x3x5x8xf16>) -> tensor<2x3x4x8xf16> {
  %0 = kn.matmul %signed, %positive
    : (tensor<2x3x4x5xf16, #cute.layout<(2,3,4,5):(20,40,5,1)>>, tensor<2x3x5x8xf16>)
    -> tensor<2x3x4x8xf16>
  func.return %0 : tensor<2x3x4x8xf16>
}
