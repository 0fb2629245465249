// Keys of which scores are masked behind a length are not loaded there, as the values are not.
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s -o %t.mlir && mg-check %s %t.mlir | filecheck %s --check-prefix PROVED
// RUN: mg-opt --bucket-extents --fuse-kernels --transpile %s | mg-run --check | filecheck %s --check-prefix DRAWN

// CHECK: tb.input {{.*}} ending [2, 0] : tensor<2x32x96xf16> -> !tb.stensor<1x32x{{[0-9]+}}xf16>
// CHECK: tb.mask {{.*}} with -inf
// CHECK: tb.input {{.*}} ending [1, 0] : tensor<2x96x32xf16,
// PROVED: proved equal
// DRAWN: check: output 0, 2x16x32 float16: relative error {{.*}} within
func.func @attention(%n: tensor<1xi32>, %q: tensor<2x16x32xf16>, %k: tensor<2x?x32xf16> {mugraph.extent = ["", "n", ""]}, %v: tensor<2x?x32xf16> {mugraph.extent = ["", "n", ""]}) -> tensor<2x16x32xf16> attributes {mugraph.extents = {n = {largest = 96, held = 0}}} {
  %t = kn.transpose %k dims [0, 2, 1] : tensor<2x?x32xf16> -> tensor<2x32x?xf16>
  %s = kn.matmul %q, %t : (tensor<2x16x32xf16>, tensor<2x32x?xf16>) -> tensor<2x16x?xf16>
  %p = kn.softmax %s dim 2 : tensor<2x16x?xf16> -> tensor<2x16x?xf16>
  %o = kn.matmul %p, %v : (tensor<2x16x?xf16>, tensor<2x?x32xf16>) -> tensor<2x16x32xf16>
  func.return %o : tensor<2x16x32xf16>
}
