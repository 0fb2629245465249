// 'kn.exp' %e uses %s before it is computed
func.func @fuzzed(%signed: tensor<5x9xf16>) -> tensor<5x9xf16> {
  %e = kn.exp %s : tensor<5x9xf16> -> tensor<5x9xf16>
  %s = kn.square %signed : tensor<5x9xf16> -> tensor<5x9xf16>
  func.return %e : tensor<5x9xf16>
}
