// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile --verify-semantics %s -o %t.mlir
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA

// The memory of %x lives as long as its transpose is read: %e must not share it.
// CHECK: kn.view %e : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>> -> tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>
// CUDA: // %t is in the memory of %e
// CUDA: half_t *t = (half_t*)((char*)buf + 128);
// CUDA-NEXT: half_t *s = (half_t*)((char*)buf + 0);
func.func @transposed(%x: tensor<4x6xf16>, %y: tensor<6x4xf16>) -> tensor<6x4xf16> {
  %e = kn.exp %x : tensor<4x6xf16> -> tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>
  %t = kn.view %e : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>> -> tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>
  %s = kn.silu %y : tensor<6x4xf16> -> tensor<6x4xf16>
  %r = kn.add %t, %s : (tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>, tensor<6x4xf16>) -> tensor<6x4xf16>
  func.return %r : tensor<6x4xf16>
}
