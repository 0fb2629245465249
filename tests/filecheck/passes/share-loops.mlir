// A kernel whose grid follows from a call finds itself how many blocks share its loop.
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="loop_tile=64 split_k=3" --retile --online-softmax --plan=tiles=written --transpile %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA

// The blocks of two sequences all run at once.
// CHECK: sched.kernel @decode_b2_custom0 {{.*}} grid [2, 2, 3] {{.*}} interleaved where
// CHECK: sched.kernel @decode_custom0 {{.*}} grid [400, 2, 3] {{.*}} interleaved parts [2, {{[0-9]+}}] where

// Iterations are numbered by the blocks that take part, and the others have none.
// CUDA: int const parts = tb::parts_of<3, {{[0-9]+}}>((b{{.*}}) * (2) * (3));
// CUDA: tb::Span const span = tb::part_of(tb::span<66, 0>(tb::bound<-64>(1 * length_length + -1)).count, static_cast<int>(blockIdx.z), parts);
// CUDA: tb::existing_of<64, 64>((span.first) * parts + blockIdx.z, 0, length_length)
func.func @decode(%q: tensor<?x2x16x32xf16> {mugraph.extent = ["b", "", "", ""]}, %length: tensor<1xi32>, %k: tensor<?x2x?x32xf16> {mugraph.extent = ["b", "", "n", ""]}, %v: tensor<?x2x?x32xf16> {mugraph.extent = ["b", "", "n", ""]}) -> tensor<?x2x16x32xf16> attributes {mugraph.extents = {b = {largest = 400 : i64, buckets = [2 : i64]}, n = {largest = 4200 : i64, held = 1 : i64}}} {
  %0 = kn.transpose %k dims [0, 1, 3, 2] : tensor<?x2x?x32xf16> -> tensor<?x2x32x?xf16>
  %1 = kn.matmul %q, %0 : (tensor<?x2x16x32xf16>, tensor<?x2x32x?xf16>) -> tensor<?x2x16x?xf16>
  %2 = kn.softmax %1 dim 3 : tensor<?x2x16x?xf16> -> tensor<?x2x16x?xf16>
  %3 = kn.matmul %2, %v : (tensor<?x2x16x?xf16>, tensor<?x2x?x32xf16>) -> tensor<?x2x16x32xf16>
  func.return %3 : tensor<?x2x16x32xf16>
}
