// Along a dimension that ends where a call says, a length in memory is a mask: a tile ends at one value there.
// RUN: mg-opt --bucket-extents --fuse-kernels %s | filecheck %s --check-prefix BEFORE
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --transpile %s | filecheck %s --check-prefix SCHEDULE

// BEFORE: tb.input {{.*}} ending [0, 0] : tensor<40x7xf16
// CHECK: %[[X:.*]] = tb.input {{.*}} imap [-1, -1, -1] : tensor<40x7xf16
// CHECK-NEXT: tb.mask %[[X]] with 0.000000e+00 where affine_set<(d0, d1)[s0] : ((((d0 * -1) + s0) + -1) >= 0)> at [0] of [40, 7]
// CHECK: tb.input {{.*}} ending [0, 0] : tensor<7x1xf16
// SCHEDULE: sched.local_tile %x map {{.*}} ending %rows : index along [0]
// SCHEDULE: sched.mask
func.func @held(%n: tensor<1xi32>, %x: tensor<?x?xf16> {mugraph.extent = ["rows", "n"]}, %y: tensor<?x1xf16> {mugraph.extent = ["n", ""]}) -> (tensor<?x1xf16>, tensor<?x?xf16>) attributes {mugraph.extents = {rows = {largest = 40}, n = {largest = 7, held = 0}}} {
  %m = kn.mask %x where affine_set<(i, j)[n] : (n - i - 1 >= 0)> at %n up_to [7] else 0.0 : tensor<?x?xf16>, tensor<1xi32> -> tensor<?x?xf16>
  %p = kn.matmul %m, %y : (tensor<?x?xf16>, tensor<?x1xf16>) -> tensor<?x1xf16>
  func.return %p, %m : tensor<?x1xf16>, tensor<?x?xf16>
}
