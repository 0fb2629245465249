// Device memory holds how many keys count, and a call says what they are at most.
// RUN: mg-opt --bucket-extents %s | filecheck %s
// RUN: mg-opt --bucket-extents --fuse-kernels --end-loads %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --bucket-extents --fuse-kernels '--plan=split-k=1' --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-run %s --check | filecheck %s --check-prefix DRAWN
// RUN: mg-run %s --check --size n=5 | filecheck %s --check-prefix DRAWN
// RUN: not mg-run %s --size n=385 2>&1 | filecheck %s --check-prefix ABOVE

// Tensors of few keys lie where those of all keys do.
// CHECK: func.func @sums_n16(%x: tensor<4x16x8xf16, #cute.layout<(4,16,8):(3072,8,1)>> {mugraph.ends = ["", "n", ""]}
// CHECK-SAME: mugraph.extents = {n = {largest = 16 : i64, least = 1 : i64, held = 1 : i64}}, mugraph.lengths = {n = array<i64: 1, 16>}
// CHECK: kn.mask {{.*}} at %n up_to [16] else 0.000000e+00
// CHECK: func.func @sums(%x: tensor<4x384x8xf16, #cute.layout<(4,384,8):(3072,8,1)>>
// CHECK-SAME: mugraph.extents = {n = {largest = 384 : i64, least = 17 : i64, held = 1 : i64}}, mugraph.lengths = {n = array<i64: 1, 384>}
// PROOF: - at n = 16: proved equal
// PROOF: - at n = 384: proved equal
// CUDA: tb::length_in(n, 16)
// CUDA: tb::length_in(n, 384)
// CUDA: mugraph::check_extent("n", extent_n, 384, 1);
// CUDA-NEXT: if (extent_n <= 16) return execute_sums_n16(
// CUDA-NEXT: if (extent_n <= 384) return execute_sums(
// DRAWN: check: output 0, 4x1x8 float16: relative error {{.*}} within
// ABOVE: mg-run: error: --size n=385: n is 385; it may be 0 to 384.
func.func @sums(%x: tensor<4x?x8xf16> {mugraph.extent = ["", "n", ""]}, %n: tensor<1xi32>) -> tensor<4x1x8xf16> attributes {mugraph.extents = {n = {largest = 384, held = 1, buckets = [16]}}} {
  %s = kn.reduction %x dim 1 : tensor<4x?x8xf16> -> tensor<4x1x8xf16>
  func.return %s : tensor<4x1x8xf16>
}
