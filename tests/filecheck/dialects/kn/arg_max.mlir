// Places of the largest elements, along a dimension and in runs.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.arg_max %x dim 1 : tensor<4x60xf16> -> tensor<4x1xi32>
// CHECK: kn.arg_max %x dim 1 : tensor<4x60xf16> -> tensor<4x3xi32>
// CUDA:  kn::ArgMax<60, 1, Target, Source>::run(mugraph::overlapping(stream), y, x);
// CUDA:  kn::ArgMax<20, 1, Target, Source>::run(mugraph::overlapping(stream), z, x);
// SAME:  proved equal
func.func @f(%x: tensor<4x60xf16>) -> (tensor<4x1xi32>, tensor<4x3xi32>) {
  %y = kn.arg_max %x dim 1 : tensor<4x60xf16> -> tensor<4x1xi32>
  %z = kn.arg_max %x dim 1 : tensor<4x60xf16> -> tensor<4x3xi32>
  func.return %y, %z : tensor<4x1xi32>, tensor<4x3xi32>
}
