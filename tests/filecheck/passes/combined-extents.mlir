// Rows that a call says are added up: masks keep those behind the end out, and a kernel says how many there are.
// RUN: mg-opt --bucket-extents %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --bucket-extents %s | sed 's/ + -1) >= 0/ + -2) >= 0/' | not mg-check - %s | filecheck %s --check-prefix MUTANT
// RUN: mg-opt --bucket-extents --fuse-kernels '--plan=forloop=6 split-k=1' --transpile %s -o %t.mlir
// RUN: mg-opt %t.mlir | filecheck %s --check-prefix SCHEDULE
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-run --size n=37 --check %t.mlir | filecheck %s --check-prefix AT37

// CHECK: func.func @sums(%x: tensor<384x64xf16, {{.*}}> {mugraph.extent = ["n", ""]},
// CHECK: %[[N:.*]] = kn.extent "n" : tensor<1xi32>
// CHECK: kn.mask {{.*}} where affine_set<(d0, d1)[s0] : {{.*}}> at %[[N]] up_to [384] else 0.000000e+00
// CHECK: kn.mask {{.*}} at %[[N]] up_to [384] else 0.000000e+00

// PROOF: - at n = 384: proved equal
// MUTANT: different: no proof

// No iteration runs behind the end.
// SCHEDULE: sched.kernel @sums_custom0 inputs 3 lengths [2, 384]
// SCHEDULE-SAME: forloop 6 where affine_set<(d0, d1, d2, d3)[s0] : ((((d3 * -64) + s0) + -1) >= 0)>
// SCHEDULE: sched.local_tile {{.*}} ending %n{{.*}} : index along [1]
// SCHEDULE: func.func @sums({{.*}} %n: index {mugraph.extent = "n"})
// SCHEDULE-NOT: kn.extent
// SCHEDULE: sched.launch @sums_custom0 %{{.*}}, %n workspace

// CUDA: int const n_length = static_cast<int>(n);  // lengths

// AT37: check: output 0, 64x32 float16: relative error {{.*}} within
func.func @sums(%x: tensor<?x64xf16> {mugraph.extent = ["n", ""]}, %y: tensor<?x32xf16> {mugraph.extent = ["n", ""]}) -> tensor<64x32xf16> attributes {mugraph.extents = {n = {largest = 384}}} {
  %t = kn.transpose %x dims [1, 0] : tensor<?x64xf16> -> tensor<64x?xf16>
  %s = kn.matmul %t, %y : (tensor<64x?xf16>, tensor<?x32xf16>) -> tensor<64x32xf16>
  func.return %s : tensor<64x32xf16>
}
