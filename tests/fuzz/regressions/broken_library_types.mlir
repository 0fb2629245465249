// 'kn.matmul' %o multiplies f16 by f16 into bf16; results are f16 or f32: insert a 'kn.cast' after it
func.func @fuzzed(%a: tensor<5x9xf16>, %b: tensor<9x5xf16>) -> tensor<5x5xbf16> {
  %o = kn.matmul %a, %b : (tensor<5x9xf16>, tensor<9x5xf16>) -> tensor<5x5xbf16>
  func.return %o : tensor<5x5xbf16>
}
