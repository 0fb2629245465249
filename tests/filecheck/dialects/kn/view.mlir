// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile --verify-semantics %s -o %t.mlir
// RUN: mg-opt -t 'cuda{function=transposed}' %t.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-opt -t 'cuda{function=last_columns}' %t.mlir | filecheck %s --check-prefix LAST

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

// The last two columns of a matrix start four elements, 8 bytes, behind the first ones.
// CHECK: kn.view %whole from 4 : tensor<8x6xf16, #cute.layout<(8,6):(6,1)>> -> tensor<8x2xf16, #cute.layout<(8,2):(6,1)>>
// LAST: half_t *w = (half_t*)((char const*)input_tensors.at(1) + 8);
func.func @last_columns(%x: tensor<8x2xf16>, %whole: tensor<8x6xf16, #cute.layout<(8,6):(6,1)>>) -> tensor<8x2xf16> {
  %w = kn.view %whole from 4 : tensor<8x6xf16, #cute.layout<(8,6):(6,1)>> -> tensor<8x2xf16, #cute.layout<(8,2):(6,1)>>
  %r = kn.add %w, %x : (tensor<8x2xf16, #cute.layout<(8,2):(6,1)>>, tensor<8x2xf16>) -> tensor<8x2xf16>
  func.return %r : tensor<8x2xf16>
}
