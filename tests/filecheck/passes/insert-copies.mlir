// RUN: mg-opt --split-input-file --insert-copies %s | filecheck %s

// A result that no kernel writes is a copy: an argument, and a value that was returned before.
// CHECK-LABEL: func.func @returned
// CHECK:      %y = kn.exp %x
// CHECK-NEXT: %y_1 = kn.copy %y : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK-NEXT: %x_1 = kn.copy %x : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK-NEXT: func.return %y, %y_1, %x_1
func.func @returned(%x: tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>) {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y, %y, %x : tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>
}

// -----

// A view of all that a kernel writes lies in the output with it; a view of a part does not.
// CHECK-LABEL: func.func @views
// CHECK:      %t = kn.view
// CHECK-NEXT: %p = kn.view
// CHECK-NEXT: %p_1 = kn.copy %p
// CHECK-NEXT: func.return %t, %p_1
func.func @views(%x: tensor<4x8xf16>) -> (tensor<8x4xf16, #cute.layout<(8,4):(1,8)>>, tensor<2x8xf16, #cute.layout<(2,8):(8,1)>>) {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>
  %z = kn.exp %y : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>
  %t = kn.view %y : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<8x4xf16, #cute.layout<(8,4):(1,8)>>
  %p = kn.view %z : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> -> tensor<2x8xf16, #cute.layout<(2,8):(8,1)>>
  func.return %t, %p : tensor<8x4xf16, #cute.layout<(8,4):(1,8)>>, tensor<2x8xf16, #cute.layout<(2,8):(8,1)>>
}

// -----

// Of the operands only one has no dimension of stride 1 among its last two; the result neither.
// CHECK-LABEL: func.func @product
// CHECK:      %a_1 = kn.copy %a : tensor<2x4x8xf16, #cute.layout<(2,4,8):(1,2,8)>> -> tensor<2x4x8xf16>
// CHECK-NEXT: %c = kn.matmul %a_1, %b compute f16 {note = "kept"} : (tensor<2x4x8xf16>, tensor<2x8x6xf16, #cute.layout<(2,8,6):(100,1,9)>>) -> tensor<2x4x6xf16>
// CHECK-NEXT: %c_1 = kn.copy %c : tensor<2x4x6xf16> -> tensor<2x4x6xf16, #cute.layout<(2,4,6):(1,2,8)>>
func.func @product(%a: tensor<2x4x8xf16, #cute.layout<(2,4,8):(1,2,8)>>, %b: tensor<2x8x6xf16, #cute.layout<(2,8,6):(100,1,9)>>) -> tensor<2x4x6xf16, #cute.layout<(2,4,6):(1,2,8)>> {
  %c = kn.matmul %a, %b compute f16 {note = "kept"} : (tensor<2x4x8xf16, #cute.layout<(2,4,8):(1,2,8)>>, tensor<2x8x6xf16, #cute.layout<(2,8,6):(100,1,9)>>) -> tensor<2x4x6xf16, #cute.layout<(2,4,6):(1,2,8)>>
  func.return %c : tensor<2x4x6xf16, #cute.layout<(2,4,6):(1,2,8)>>
}

// -----

// Rows and columns on their own suit the library whatever their stride; so does a padded matrix.
// CHECK-LABEL: func.func @vectors
// CHECK-NOT: kn.copy
func.func @vectors(%a: tensor<1x8xf16, #cute.layout<(1,8):(3,5)>>, %b: tensor<8x6xf16, #cute.layout<(8,6):(1,11)>>) -> tensor<1x6xf16> {
  %c = kn.matmul %a, %b : (tensor<1x8xf16, #cute.layout<(1,8):(3,5)>>, tensor<8x6xf16, #cute.layout<(8,6):(1,11)>>) -> tensor<1x6xf16>
  func.return %c : tensor<1x6xf16>
}

// -----

// The product of the copies is as exact as what it stands for.
// CHECK-LABEL: func.func @ieee
// CHECK:      kn.matmul %a, %b precision ieee : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
// CHECK-NEXT: kn.copy
func.func @ieee(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32, #cute.layout<(4,6):(12,2)>> {
  %c = kn.matmul %a, %b precision ieee : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32, #cute.layout<(4,6):(12,2)>>
  func.return %c : tensor<4x6xf32, #cute.layout<(4,6):(12,2)>>
}

// -----

// cuBLAS multiplies f8 as f16, and rounds its sums to f16 or f32.
// CHECK-LABEL: func.func @narrow
// CHECK:      %a_1 = kn.cast %a : tensor<4x8xf8E4M3FN> -> tensor<4x8xf16>
// CHECK-NEXT: %b_1 = kn.cast %b : tensor<8x6xf8E4M3FN, #cute.layout<(8,6):(1,8)>> -> tensor<8x6xf16>
// CHECK-NEXT: %c = kn.matmul %a_1, %b_1 : (tensor<4x8xf16>, tensor<8x6xf16>) -> tensor<4x6xf32>
// CHECK-NEXT: %c_1 = kn.cast %c : tensor<4x6xf32> -> tensor<4x6xbf16>
// CHECK-NOT:  kn.copy
// CHECK:      func.return
func.func @narrow(%a: tensor<4x8xf8E4M3FN>, %b: tensor<8x6xf8E4M3FN, #cute.layout<(8,6):(1,8)>>) -> tensor<4x6xbf16> {
  %c = kn.matmul %a, %b : (tensor<4x8xf8E4M3FN>, tensor<8x6xf8E4M3FN, #cute.layout<(8,6):(1,8)>>) -> tensor<4x6xbf16>
  func.return %c : tensor<4x6xbf16>
}
