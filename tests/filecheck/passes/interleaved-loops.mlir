// Blocks that share a loop which ends at a length have its tiles in turn, and the function stays the same.
// RUN: mg-opt --bucket-extents --fuse-kernels --plan="loop_tile=64 split_k=3" --retile --online-softmax %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-check %t.mlir %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %t.mlir | filecheck %s --check-prefix CUDA

// CHECK: kn.customized {{.*}} grid [2, 3, 1] block [128, 1, 1] forloop 3 interleaved lengths [2, 520]
// PROOF: proved equal: the normal forms of all results coincide

// A block runs iterations whose tile, the number of the iteration times 3 and the block's, has keys; perhaps none.
// CUDA: tb::Span const span = tb::span<3, 0>(tb::bound<-192>(-64 * static_cast<int>(blockIdx.y) + 1 * length_length + -1));
// CUDA: tb::existing_of<64, 64>((span.first) * 3 + blockIdx.y, 0, length_length)
func.func @attention(%length: tensor<1xi32>, %q: tensor<2x16x32xf16>, %k: tensor<2x?x32xf16> {mugraph.extent = ["", "n", ""]}, %v: tensor<2x?x32xf16> {mugraph.extent = ["", "n", ""]}) -> tensor<2x16x32xf16> attributes {mugraph.extents = {n = {largest = 520 : i64, held = 0 : i64}}} {
  %0 = kn.transpose %k dims [0, 2, 1] : tensor<2x?x32xf16> -> tensor<2x32x?xf16>
  %1 = kn.matmul %q, %0 : (tensor<2x16x32xf16>, tensor<2x32x?xf16>) -> tensor<2x16x?xf16>
  %2 = kn.softmax %1 dim 2 : tensor<2x16x?xf16> -> tensor<2x16x?xf16>
  %3 = kn.matmul %2, %v : (tensor<2x16x?xf16>, tensor<2x?x32xf16>) -> tensor<2x16x32xf16>
  func.return %3 : tensor<2x16x32xf16>
}
