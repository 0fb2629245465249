// A function with named extents becomes static ones, whose kernels end where a call says.
// RUN: mg-opt --bucket-extents %s | filecheck %s
// RUN: mg-opt --bucket-extents %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --bucket-extents --fuse-kernels --transpile=arch=sm_90a %s -o %t.mlir
// RUN: mg-opt %t.mlir | filecheck %s --check-prefix SCHEDULE
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-run --size m=37 --check %t.mlir | filecheck %s --check-prefix AT37
// RUN: mg-run %s --size m=1 --check | filecheck %s --check-prefix ROW
// RUN: not mg-run %s --size m=301 2>&1 | filecheck %s --check-prefix LARGE
// RUN: mg-opt --transpile %s | filecheck %s --check-prefix ALONE

// CHECK: func.func @norm_m16(%x: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>> {mugraph.extent = ["m", ""]})
// CHECK-SAME: mugraph.extents = {m = {largest = 16 : i64, least = 1 : i64}}, mugraph.bucket_of = "norm"
// CHECK: func.func @norm(%x: tensor<300x64xf16,
// CHECK-SAME: mugraph.extents = {m = {largest = 300 : i64, least = 17 : i64}}
// PROOF: - at m = 16: proved equal
// PROOF: - at m = 300: proved equal

// A tile of a row that a call does not have is not loaded and not stored, and no block is launched for it alone.
// SCHEDULE: sched.kernel @norm_custom0 inputs 2 grid [150, 1, 1] cut [0, 1, 2] block
// SCHEDULE-NEXT: (%x: !sched.global<300x64xf16, (300,64):(64,1)>, %m: index,
// SCHEDULE: sched.local_tile %x map [0, -1, -1] ending %m : index along [0] :
// SCHEDULE: sched.copy %x_tile {{.*}} within [0] :
// SCHEDULE: sched.launch @norm_custom0 %x, %m

// CUDA: norm_custom0(half_t const* x, int const m, half_t* y)
// CUDA: tb::existing_of<2, 2>(blockIdx.x, 0, m)
// CUDA: mugraph::launch("norm_custom0", norm_custom0, dim3((m_1 + 1) / 2, 1, 1),
// CUDA: static void _execute_mugraph(
// CUDA-NEXT: int64_t const extent_m = *(int64_t const*)input_tensors.at(1);
// CUDA-NEXT: mugraph::check_extent("m", extent_m, 300, 1);
// CUDA-NEXT: if (extent_m == 0) return;
// CUDA-NEXT: if (extent_m <= 16) return execute_norm_m16(
// CUDA-NEXT: if (extent_m <= 300) return execute_norm(

// AT37: check: output 0, 37x64 float16: relative error {{.*}} within
// ROW: check: output 0, 1x64 float16: relative error {{.*}} within
// LARGE: --size m=301: m is 301; it may be 0 to 300.
// Kernels of whole tensors have copies of the rows that there are.
// ALONE: kn.copy %x rows "m"
// ALONE: kn.copy %{{.*}} rows "m" workspace [-1]
func.func @norm(%x: tensor<?x64xf16> {mugraph.extent = ["m", ""]}) -> tensor<?x64xf16> attributes {mugraph.extents = {m = {largest = 300, buckets = [16]}}} {
  %y = kn.rms_norm %x over [64] : (tensor<?x64xf16>) -> tensor<?x64xf16>
  func.return %y : tensor<?x64xf16>
}
