// Sums, norms with a weight, and parts, of tensors whose layouts are padded, column-major and mixed.
func.func @fuzzed(%positive_x: tensor<10x8x3xf16, #cute.layout<(10,8,3):(1,10,83)>>, %w: tensor<8x3xf16, #cute.layout<(8,3):(5,1)>>) -> (tensor<10x2x3xf16>, tensor<10x1x3xf32, #cute.layout<(10,1,3):(3,3,1)>>, tensor<10x16x3xf16, #cute.layout<(10,16,3):(64,4,1)>>, tensor<10x3x3xf16>) {
  %r = kn.reduction %positive_x dim 1 : tensor<10x8x3xf16, #cute.layout<(10,8,3):(1,10,83)>> -> tensor<10x2x3xf16>
  %n = kn.rms_norm %positive_x weight %w over [8, 3] epsilon 1.0e-5 : (tensor<10x8x3xf16, #cute.layout<(10,8,3):(1,10,83)>>, tensor<8x3xf16, #cute.layout<(8,3):(5,1)>>) -> tensor<10x8x3xf16>
  %s = kn.reduction %n dim 1 : tensor<10x8x3xf16> -> tensor<10x1x3xf32, #cute.layout<(10,1,3):(3,3,1)>>
  %a, %b = kn.split %n dim 1 : (tensor<10x8x3xf16>) -> (tensor<10x5x3xf16>, tensor<10x3x3xf16>)
  %c, %d = kn.chunk %n dim 1 : (tensor<10x8x3xf16>) -> (tensor<10x4x3xf16>, tensor<10x4x3xf16>)
  %t = kn.copy %d : tensor<10x4x3xf16> -> tensor<10x4x3xf16>
  %e = kn.concat %a, %b, %c, %t dim 1 : (tensor<10x5x3xf16>, tensor<10x3x3xf16>, tensor<10x4x3xf16>, tensor<10x4x3xf16>) -> tensor<10x16x3xf16, #cute.layout<(10,16,3):(64,4,1)>>
  func.return %r, %s, %e, %b : tensor<10x2x3xf16>, tensor<10x1x3xf32, #cute.layout<(10,1,3):(3,3,1)>>, tensor<10x16x3xf16, #cute.layout<(10,16,3):(64,4,1)>>, tensor<10x3x3xf16>
}
