// 'kn.matmul' %o multiplies f16 by f16 into f32; cuBLAS takes one element type
func.func @fuzzed(%a: tensor<5x9xf16>, %b: tensor<9x5xf16>) -> tensor<5x5xf32> {
  %o = kn.matmul %a, %b : (tensor<5x9xf16>, tensor<9x5xf16>) -> tensor<5x5xf32>
  func.return %o : tensor<5x5xf32>
}
