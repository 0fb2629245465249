// Reductions, norms, and operators that move elements.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s

// CHECK: kn.reduction %x dim 1 : tensor<10x8x3xf16> -> tensor<10x2x3xf16>
// CHECK: kn.rms_norm %x over [3] workspace [0] : (tensor<10x8x3xf16>) -> tensor<10x8x3xf16>
// CHECK: kn.rms_norm %x weight %w over [8, 3] epsilon 1.000000e-05 : (tensor<10x8x3xf16>, tensor<8x3xf16>) -> tensor<10x8x3xf16>
// CHECK: %a, %b = kn.split %m dim 1 workspace [0, 128] : (tensor<10x8x3xf16>) -> (tensor<10x5x3xf16>, tensor<10x3x3xf16>)
// CHECK: %c, %d = kn.chunk %m dim 1 : (tensor<10x8x3xf16>) -> (tensor<10x4x3xf16>, tensor<10x4x3xf16>)
// CHECK: kn.concat %a, %b, %c dim 1 : (tensor<10x5x3xf16>, tensor<10x3x3xf16>, tensor<10x4x3xf16>) -> tensor<10x12x3xf16>
// CHECK: kn.all_reduce %e inplace : tensor<10x12x3xf16> -> tensor<10x12x3xf16>
// CHECK: kn.copy %g : tensor<10x12x3xf16> -> tensor<10x12x3xf16>
func.func @f(%x: tensor<10x8x3xf16>, %w: tensor<8x3xf16>) -> tensor<10x2x3xf16> {
  %r = kn.reduction %x dim 1 : tensor<10x8x3xf16> -> tensor<10x2x3xf16>
  %n = kn.rms_norm %x over [3] workspace [0] : (tensor<10x8x3xf16>) -> tensor<10x8x3xf16>
  %m = kn.rms_norm %x weight %w over [8, 3] epsilon 1.0e-5 : (tensor<10x8x3xf16>, tensor<8x3xf16>) -> tensor<10x8x3xf16>
  %a, %b = kn.split %m dim 1 workspace [0, 128] : (tensor<10x8x3xf16>) -> (tensor<10x5x3xf16>, tensor<10x3x3xf16>)
  %c, %d = kn.chunk %m dim 1 : (tensor<10x8x3xf16>) -> (tensor<10x4x3xf16>, tensor<10x4x3xf16>)
  %e = kn.concat %a, %b, %c dim 1 : (tensor<10x5x3xf16>, tensor<10x3x3xf16>, tensor<10x4x3xf16>) -> tensor<10x12x3xf16>
  %g = kn.all_reduce %e inplace : tensor<10x12x3xf16> -> tensor<10x12x3xf16>
  %h = kn.copy %g : tensor<10x12x3xf16> -> tensor<10x12x3xf16>
  func.return %r : tensor<10x2x3xf16>
}
