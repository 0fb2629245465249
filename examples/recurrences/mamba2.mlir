// Mamba-2's scan as a plain program: 8 heads of width 64 share keys %b and queries %c of depth 64; %dt are the steps, %a_log the
// logarithms of -A.  Token by token, h = exp(dt A) h + dt b x, y = c h + skip x:
//
//   mg-opt --fuse-kernels examples/recurrences/mamba2.mlir        # chunks of 64 tokens; no state of a token is made
//   mg-opt --explain-fusion examples/recurrences/mamba2.mlir > /dev/null
func.func @mamba2(%x: tensor<1024x8x64xbf16>, %b: tensor<1024x64xbf16>, %c: tensor<1024x64xbf16>, %dt: tensor<1024x8xf32>, %bias: tensor<1x8xf32>, %a_log: tensor<1x8xf32>, %skip: tensor<1x8x1xf32>) -> tensor<1024x8x64xbf16> {
  %shifted = kn.add %dt, %bias : (tensor<1024x8xf32>, tensor<1x8xf32>) -> tensor<1024x8xf32>
  %step = kn.softplus %shifted : tensor<1024x8xf32> -> tensor<1024x8xf32>
  %rate = kn.exp %a_log : tensor<1x8xf32> -> tensor<1x8xf32>
  %a = kn.mul_scalar %rate by -1.0 : tensor<1x8xf32> -> tensor<1x8xf32>
  %log_decay = kn.mul %step, %a : (tensor<1024x8xf32>, tensor<1x8xf32>) -> tensor<1024x8xf32>
  %decay = kn.exp %log_decay : tensor<1024x8xf32> -> tensor<1024x8xf32>
  %decays = kn.reshape %decay : tensor<1024x8xf32> -> tensor<1024x8x1x1xf32>
  %steps = kn.reshape %step : tensor<1024x8xf32> -> tensor<1024x8x1x1xf32>
  %rows = kn.reshape %x : tensor<1024x8x64xbf16> -> tensor<1024x8x1x64xbf16>
  %keys = kn.reshape %b : tensor<1024x64xbf16> -> tensor<1024x1x64x1xbf16>
  %queries = kn.reshape %c : tensor<1024x64xbf16> -> tensor<1024x1x64x1xbf16>
  %scaled = kn.mul %rows, %steps : (tensor<1024x8x1x64xbf16>, tensor<1024x8x1x1xf32>) -> tensor<1024x8x1x64xf32>
  %added = kn.mul %keys, %scaled : (tensor<1024x1x64x1xbf16>, tensor<1024x8x1x64xf32>) -> tensor<1024x8x64x64xf32>
  %h = kn.scan %added decay %decays dim 0 : (tensor<1024x8x64x64xf32>, tensor<1024x8x1x1xf32>) -> tensor<1024x8x64x64xf32>
  %read = kn.mul %h, %queries : (tensor<1024x8x64x64xf32>, tensor<1024x1x64x1xbf16>) -> tensor<1024x8x64x64xf32>
  %sum = kn.reduction %read dim 2 : tensor<1024x8x64x64xf32> -> tensor<1024x8x1x64xf32>
  %states = kn.reshape %sum : tensor<1024x8x1x64xf32> -> tensor<1024x8x64xf32>
  %skipped = kn.mul %x, %skip : (tensor<1024x8x64xbf16>, tensor<1x8x1xf32>) -> tensor<1024x8x64xf32>
  %y = kn.add %states, %skipped : (tensor<1024x8x64xf32>, tensor<1024x8x64xf32>) -> tensor<1024x8x64xbf16>
  func.return %y : tensor<1024x8x64xbf16>
}
