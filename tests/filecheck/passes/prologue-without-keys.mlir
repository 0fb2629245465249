// A block of a shared loop may have no keys. What its prologue reads is loaded even so, and all else is not.
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="loop_tile=64 split_k=3" --retile --transpile %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-run %t.mlir --size n=70 --check | filecheck %s --check-prefix RIGHT

// RIGHT: within
// CHECK: sched.kernel {{.*}} interleaved where
// CHECK: sched.prologue {
// CHECK-NOT: iteration
// CHECK: sched.copy async {{.*}} by <128, vector 8, order [2, 1, 0]> :
// CHECK: sched.copy async {{.*}} iteration 0 within
func.func @rotated(%q: tensor<2x16x32xf16>, %factors: tensor<1x1x32xf16>, %k: tensor<?x2x32xf16> {mugraph.extent = ["n", "", ""]}) -> tensor<2x16x32xf16> attributes {mugraph.extents = {n = {largest = 520 : i64}}} {
  %low = kn.slice %q from [0, 0, 0] : tensor<2x16x32xf16> -> tensor<2x16x16xf16>
  %high = kn.slice %q from [0, 0, 16] : tensor<2x16x32xf16> -> tensor<2x16x16xf16>
  %turned = kn.concat %high, %low dim 2 : (tensor<2x16x16xf16>, tensor<2x16x16xf16>) -> tensor<2x16x32xf16>
  %near = kn.mul %q, %factors : (tensor<2x16x32xf16>, tensor<1x1x32xf16>) -> tensor<2x16x32xf16>
  %rotated = kn.add %near, %turned : (tensor<2x16x32xf16>, tensor<2x16x32xf16>) -> tensor<2x16x32xf16>
  %kt = kn.transpose %k dims [1, 2, 0] : tensor<?x2x32xf16> -> tensor<2x32x?xf16>
  %kn = kn.transpose %k dims [1, 0, 2] : tensor<?x2x32xf16> -> tensor<2x?x32xf16>
  %scores = kn.matmul %rotated, %kt : (tensor<2x16x32xf16>, tensor<2x32x?xf16>) -> tensor<2x16x?xf32>
  %powers = kn.softmax %scores dim 2 : tensor<2x16x?xf32> -> tensor<2x16x?xf32>
  %weights = kn.cast %powers : tensor<2x16x?xf32> -> tensor<2x16x?xf16>
  %o = kn.matmul %weights, %kn : (tensor<2x16x?xf16>, tensor<2x?x32xf16>) -> tensor<2x16x32xf16>
  func.return %o : tensor<2x16x32xf16>
}
