// 'kn.exp' %e: %e: element type f64 is not supported
func.func @fuzzed(%signed: tensor<5x9xf16>) -> tensor<5x9xf16> {
  %e = kn.exp %signed : tensor<5x9xf16> -> tensor<5x9xf64>
  %s = kn.square %e : tensor<5x9xf64> -> tensor<5x9xf16>
  func.return %s : tensor<5x9xf16>
}
