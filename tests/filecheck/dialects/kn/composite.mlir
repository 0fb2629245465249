// Operators that are made of others, and reductions that are no sums.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s

// CHECK: kn.reduction %x combine max dim 1 : tensor<4x6x8xf16> -> tensor<4x2x8xf16>
// CHECK: kn.softmax %x dim 2 : tensor<4x6x8xf16> -> tensor<4x6x8xf32>
// CHECK: kn.log_sum_exp %x dim 0 : tensor<4x6x8xf16> -> tensor<1x6x8xf16>
// CHECK: kn.mean %x dim 1 : tensor<4x6x8xf16> -> tensor<4x1x8xf16>
// CHECK: kn.variance %x dim 1 : tensor<4x6x8xf16> -> tensor<4x1x8xf16>
// CHECK: kn.layer_norm %x over [6, 8] : (tensor<4x6x8xf16>) -> tensor<4x6x8xf16>
// CHECK: kn.layer_norm %x affine %w over [8] : (tensor<4x6x8xf16>, tensor<8xf16>) -> tensor<4x6x8xf16>
// CHECK: kn.layer_norm %x affine %w, %w over [8] epsilon 1.000000e-05 : (tensor<4x6x8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<4x6x8xf16>
// CHECK: kn.reshape %x : tensor<4x6x8xf16> -> tensor<24x2x4xf16>
// CHECK: kn.transpose %x dims [2, 0, 1] : tensor<4x6x8xf16> -> tensor<8x4x6xf16>
// CHECK: kn.slice %x from [0, 1, 4] : tensor<4x6x8xf16> -> tensor<4x5x4xf16>
func.func @f(%x: tensor<4x6x8xf16>, %w: tensor<8xf16>) {
  %a = kn.reduction %x combine max dim 1 : tensor<4x6x8xf16> -> tensor<4x2x8xf16>
  %b = kn.softmax %x dim 2 : tensor<4x6x8xf16> -> tensor<4x6x8xf32>
  %c = kn.log_sum_exp %x dim 0 : tensor<4x6x8xf16> -> tensor<1x6x8xf16>
  %d = kn.mean %x dim 1 : tensor<4x6x8xf16> -> tensor<4x1x8xf16>
  %e = kn.variance %x dim 1 : tensor<4x6x8xf16> -> tensor<4x1x8xf16>
  %g = kn.layer_norm %x over [6, 8] : (tensor<4x6x8xf16>) -> tensor<4x6x8xf16>
  %h = kn.layer_norm %x affine %w over [8] : (tensor<4x6x8xf16>, tensor<8xf16>) -> tensor<4x6x8xf16>
  %i = kn.layer_norm %x affine %w, %w over [8] epsilon 1.0e-5 : (tensor<4x6x8xf16>, tensor<8xf16>, tensor<8xf16>) -> tensor<4x6x8xf16>
  %j = kn.reshape %x : tensor<4x6x8xf16> -> tensor<24x2x4xf16>
  %k = kn.transpose %x dims [2, 0, 1] : tensor<4x6x8xf16> -> tensor<8x4x6xf16>
  %l = kn.slice %x from [0, 1, 4] : tensor<4x6x8xf16> -> tensor<4x5x4xf16>
  func.return
}
