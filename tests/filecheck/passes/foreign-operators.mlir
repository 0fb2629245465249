// RUN: mg-opt --plan=tiles=written --transpile %s | filecheck %s

// A µGraph may hold operators of other dialects that touch none of its tensors.
// CHECK: func.func @counted(%x: tensor<8x8xf16, #cute.layout<(8,8):(8,1)>>, %i: index, %log: memref<8xindex>)
// CHECK:   %next = arith.addi %i, %one : index
// CHECK:   memref.store %next, %log[%i] : memref<8xindex>
// CHECK:   %y = kn.exp %x workspace [-1]
// CHECK:   func.return %y, %next
func.func @counted(%x: tensor<8x8xf16>, %i: index, %log: memref<8xindex>) -> (tensor<8x8xf16>, index) {
  %one = arith.constant 1 : index
  %next = arith.addi %i, %one : index
  memref.store %next, %log[%i] : memref<8xindex>
  %y = kn.exp %x : tensor<8x8xf16> -> tensor<8x8xf16>
  func.return %y, %next : tensor<8x8xf16>, index
}
