// The largest elements along a dimension, and their places; what stands where does not depend on how many there are.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.top_k %x dim 1 : (tensor<4x60xf16>) -> (tensor<4x8xf16>, tensor<4x8xi32>)
// CHECK: kn.top_k %x dim 0 : (tensor<4x60xf16>) -> (tensor<1x60xf16>, tensor<1x60xi64>)
// CUDA:  kn::TopK<60, 8, Values, Places, Source>::run(mugraph::overlapping(stream), v, i, x);
// CUDA:  kn::TopK<4, 1, Values, Places, Source>::run(mugraph::overlapping(stream), w, j, x);
// SAME:  proved equal
func.func @f(%x: tensor<4x60xf16>) -> (tensor<4x8xf16>, tensor<4x8xi32>, tensor<1x60xf16>, tensor<1x60xi64>) {
  %v, %i = kn.top_k %x dim 1 : (tensor<4x60xf16>) -> (tensor<4x8xf16>, tensor<4x8xi32>)
  %w, %j = kn.top_k %x dim 0 : (tensor<4x60xf16>) -> (tensor<1x60xf16>, tensor<1x60xi64>)
  func.return %v, %i, %w, %j : tensor<4x8xf16>, tensor<4x8xi32>, tensor<1x60xf16>, tensor<1x60xi64>
}
