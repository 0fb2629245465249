// The keys of a cache, whose count stands in device memory: masks, the loop, the loads and what lies behind.
// RUN: mg-opt --bucket-extents %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s -o %t.graph.mlir
// RUN: filecheck %s --check-prefix GRAPH < %t.graph.mlir
// RUN: mg-check %t.graph.mlir %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --bucket-extents %s | sed 's/ + -1) >= 0/ + -2) >= 0/' | not mg-check - %s | filecheck %s --check-prefix MUTANT
// RUN: mg-opt --bucket-extents --fuse-kernels '--plan=forloop=6 split-k=1' --transpile %s -o %t.mlir
// RUN: mg-opt %t.mlir | filecheck %s --check-prefix SCHEDULE
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA

// CHECK: func.func @sums(%x: tensor<384x64xf16, {{.*}}> {mugraph.ends = ["n", ""]}, {{.*}} %n: tensor<1xi32,
// CHECK-SAME: attributes {mugraph.lengths = {n = array<i64: 2, 384>}}
// CHECK: kn.mask {{.*}} where affine_set<(d0, d1)[s0] : {{.*}}> at %n up_to [384] else 0.000000e+00
// CHECK: kn.mask {{.*}} at %n up_to [384] else 0.000000e+00

// GRAPH: kn.customized {{.*}} lengths [
// GRAPH: tb.input {{.*}} ending [1, 0]
// GRAPH: tb.input {{.*}} ending [0, 0]
// GRAPH-NOT: tb.mask

// PROOF: proved equal
// MUTANT: different: no proof

// Behind the end nothing is loaded, and no iteration runs.
// SCHEDULE: sched.kernel @sums_custom0 inputs 3 lengths [{{.}}, 384]
// SCHEDULE-SAME: forloop 6 where affine_set<(d0, d1, d2, d3)[s0] : ((((d3 * -64) + s0) + -1) >= 0)>
// SCHEDULE: sched.grid_wait
// SCHEDULE: sched.local_tile {{.*}} ending %n : !sched.global<1xi32, (1):(1)> along [1]
// SCHEDULE: within [

// CUDA: tb::grid_wait();
// CUDA-NEXT: int const n_length = tb::length_in(n, 384);
// CUDA-NEXT: tb::Span const span = tb::span<6>(tb::bound<-64>(1 * n_length + -1));
// CUDA: it < span.count
func.func @sums(%x: tensor<?x64xf16> {mugraph.extent = ["n", ""]}, %y: tensor<?x32xf16> {mugraph.extent = ["n", ""]}, %n: tensor<1xi32>) -> tensor<64x32xf16> attributes {mugraph.extents = {n = {largest = 384, held = 2}}} {
  %t = kn.transpose %x dims [1, 0] : tensor<?x64xf16> -> tensor<64x?xf16>
  %s = kn.matmul %t, %y : (tensor<64x?xf16>, tensor<?x32xf16>) -> tensor<64x32xf16>
  func.return %s : tensor<64x32xf16>
}
