// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.view' %t: the result has an element at offset 24, where the operand (%x) has none
func.func @beyond(%x: tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>) -> tensor<5x6xf16, #cute.layout<(5,6):(6,1)>> {
  %t = kn.view %x : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>> -> tensor<5x6xf16, #cute.layout<(5,6):(6,1)>>
  func.return %t : tensor<5x6xf16, #cute.layout<(5,6):(6,1)>>
}

// -----

// CHECK: 'kn.view' %t: the result has an element at offset 6, where the operand (%x) has none
func.func @in_the_padding(%x: tensor<4x6xf16, #cute.layout<(4,6):(8,1)>>) -> tensor<24xf16, #cute.layout<(24):(1)>> {
  %t = kn.view %x : tensor<4x6xf16, #cute.layout<(4,6):(8,1)>> -> tensor<24xf16, #cute.layout<(24):(1)>>
  func.return %t : tensor<24xf16, #cute.layout<(24):(1)>>
}

// -----

// CHECK: 'kn.view' %t: %x has no layout; a view is of memory whose layout is known
func.func @without_layout(%x: tensor<4x6xf16>) -> tensor<24xf16, #cute.layout<(24):(1)>> {
  %t = kn.view %x : tensor<4x6xf16> -> tensor<24xf16, #cute.layout<(24):(1)>>
  func.return %t : tensor<24xf16, #cute.layout<(24):(1)>>
}

// -----

// CHECK: 'kn.view' %t sees elements of f16 as bf16; insert a 'kn.cast'
func.func @as_another_type(%x: tensor<4xf16, #cute.layout<(4):(1)>>) -> tensor<4xbf16, #cute.layout<(4):(1)>> {
  %t = kn.view %x : tensor<4xf16, #cute.layout<(4):(1)>> -> tensor<4xbf16, #cute.layout<(4):(1)>>
  func.return %t : tensor<4xbf16, #cute.layout<(4):(1)>>
}

// -----

// CHECK: 'kn.view' %t: the result has an element at offset 24, where the operand (%x) has none
func.func @columns_beyond(%x: tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>) -> tensor<4x3xf16, #cute.layout<(4,3):(6,1)>> {
  %t = kn.view %x from 4 : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>> -> tensor<4x3xf16, #cute.layout<(4,3):(6,1)>>
  func.return %t : tensor<4x3xf16, #cute.layout<(4,3):(6,1)>>
}

// -----

// CHECK: 'kn.view' %t starts 4 elements before its operand does; expected `from` a number of at least 0
func.func @before(%x: tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>) -> tensor<4x3xf16, #cute.layout<(4,3):(6,1)>> {
  %t = kn.view %x from -4 : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>> -> tensor<4x3xf16, #cute.layout<(4,3):(6,1)>>
  func.return %t : tensor<4x3xf16, #cute.layout<(4,3):(6,1)>>
}
