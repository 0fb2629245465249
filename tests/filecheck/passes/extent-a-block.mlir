// A grid is cut where a call says: blocks of one sequence have theirs, and test nothing; blocks of several test which exist.
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="grid=9,1,1 along=0,-1,-1" --transpile %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="grid=3,1,1 along=0,-1,-1" --transpile %s | filecheck %s --check-prefix SEVERAL
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="grid=9,1,1 along=0,-1,-1" --transpile %s | mg-run --size b=5 --check | filecheck %s --check-prefix AT5

// CHECK: sched.kernel @softmax_custom0 {{.*}} grid [9, 1, 1] cut [0, 1, 1]
// CHECK: sched.local_tile %x map [0, -1, -1] : !sched.global<9x64xf16,
// CHECK: sched.local_tile %o map [0, -1, -1] : !sched.global<9x64xf16,

// SEVERAL: sched.kernel @softmax_custom0 {{.*}} grid [3, 1, 1] cut [0, 1, 3]
// SEVERAL: sched.local_tile %x map [0, -1, -1] ending %b : index along [0] : !sched.global<9x64xf16,
// SEVERAL: sched.local_tile %o map [0, -1, -1] ending %b : index along [0] : !sched.global<9x64xf16,

// AT5: check: output 0, 5x64 float16: relative error {{.*}} within
func.func @softmax(%x: tensor<?x64xf16> {mugraph.extent = ["b", ""]}) -> tensor<?x64xf16> attributes {mugraph.extents = {b = {largest = 9}}} {
  %o = kn.softmax %x dim 1 : tensor<?x64xf16> -> tensor<?x64xf16>
  func.return %o : tensor<?x64xf16>
}
