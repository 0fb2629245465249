// The gated delta rule as a plain program: 16 heads of depth and width 64, %g the logarithms of the decays, %b the rates.  Token by
// token, S = a (1 - b k kT) S + b k vT, o = qT S:
//
//   mg-opt --fuse-kernels examples/recurrences/gated_delta_rule.mlir      # chunks of 64 tokens; no state of a token is made
//   mg-opt --explain-fusion examples/recurrences/gated_delta_rule.mlir > /dev/null
func.func @gated_delta_rule(%q: tensor<16x1024x64x1xbf16>, %k: tensor<16x1024x64x1xbf16>, %v: tensor<16x1024x1x64xbf16>, %g: tensor<16x1024x1x1xf32>, %b: tensor<16x1024x1x1xf32>) -> tensor<16x1024x1x64xbf16> {
  %a = kn.exp %g : tensor<16x1024x1x1xf32> -> tensor<16x1024x1x1xf32>
  %vb = kn.mul %v, %b : (tensor<16x1024x1x64xbf16>, tensor<16x1024x1x1xf32>) -> tensor<16x1024x1x64xf32>
  %added = kn.mul %k, %vb : (tensor<16x1024x64x1xbf16>, tensor<16x1024x1x64xf32>) -> tensor<16x1024x64x64xf32>
  %ab = kn.mul %a, %b : (tensor<16x1024x1x1xf32>, tensor<16x1024x1x1xf32>) -> tensor<16x1024x1x1xf32>
  %c = kn.mul_scalar %ab by -1.0 : tensor<16x1024x1x1xf32> -> tensor<16x1024x1x1xf32>
  %row = kn.reshape %k : tensor<16x1024x64x1xbf16> -> tensor<16x1024x1x64xbf16>
  %ck = kn.mul %row, %c : (tensor<16x1024x1x64xbf16>, tensor<16x1024x1x1xf32>) -> tensor<16x1024x1x64xf32>
  %removed = kn.mul %k, %ck : (tensor<16x1024x64x1xbf16>, tensor<16x1024x1x64xf32>) -> tensor<16x1024x64x64xf32>
  %s = kn.recurrence %added plus %removed decay %a : tensor<16x1024x1x1xf32> dim 1 : (tensor<16x1024x64x64xf32>, tensor<16x1024x64x64xf32>) -> tensor<16x1024x64x64xf32>
  %read = kn.mul %s, %q : (tensor<16x1024x64x64xf32>, tensor<16x1024x64x1xbf16>) -> tensor<16x1024x64x64xf32>
  %sum = kn.reduction %read dim 2 : tensor<16x1024x64x64xf32> -> tensor<16x1024x1x64xf32>
  %o = kn.cast %sum : tensor<16x1024x1x64xf32> -> tensor<16x1024x1x64xbf16>
  func.return %o : tensor<16x1024x1x64xbf16>
}
