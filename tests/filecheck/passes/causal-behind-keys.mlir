// Queries behind the keys of earlier calls: both are extents, and the last query sees the last key.
// RUN: mg-opt --bucket-extents --fuse-kernels %s -o %t.mlir
// RUN: mg-check %t.mlir %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --transpile %t.mlir -o %t.sched.mlir
// RUN: filecheck %s < %t.sched.mlir
// RUN: mg-run %s --size m=1,n=70 --check | filecheck %s --check-prefix RIGHT
// RUN: mg-run %t.sched.mlir --size m=37,n=100 --check | filecheck %s --check-prefix RIGHT
// RUN: mg-run %t.sched.mlir --size m=96,n=96 --check | filecheck %s --check-prefix RIGHT

// PROOF: at m = 96, n = 160: proved equal
// RIGHT: within
// CHECK: sched.kernel {{.*}} lengths [4, 160, 3, 96] {{.*}} cut [0, 3,
func.func @prompt(%q: tensor<?x32xf16> {mugraph.extent = ["m", ""]}, %k: tensor<?x32xf16> {mugraph.extent = ["n", ""]}, %v: tensor<?x32xf16> {mugraph.extent = ["n", ""]}) -> tensor<?x32xf16> attributes {mugraph.extents = {m = {largest = 96 : i64}, n = {largest = 160 : i64}}} {
  %0 = kn.transpose %k dims [1, 0] : tensor<?x32xf16> -> tensor<32x?xf16>
  %1 = kn.matmul %q, %0 : (tensor<?x32xf16>, tensor<32x?xf16>) -> tensor<?x?xf32>
  %2 = kn.extent "n" : tensor<1xi32>
  %3 = kn.extent "m" : tensor<1xi32>
  %4 = kn.mask %1 where affine_set<(d0, d1)[s0, s1] : ((((d0 + (d1 * -1)) + s0) + (s1 * -1)) >= 0)> at %2, %3 up_to [160, 96] else -inf : tensor<?x?xf32>, tensor<1xi32>, tensor<1xi32> -> tensor<?x?xf32>
  %5 = kn.softmax %4 dim 1 or_zero : tensor<?x?xf32> -> tensor<?x?xf32>
  %6 = kn.cast %5 : tensor<?x?xf32> -> tensor<?x?xf16>
  %7 = kn.matmul %6, %v : (tensor<?x?xf16>, tensor<?x32xf16>) -> tensor<?x32xf16>
  func.return %7 : tensor<?x32xf16>
}
