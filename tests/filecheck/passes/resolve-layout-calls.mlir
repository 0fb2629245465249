// A caller converts at each call, as the result's rows are padded and the argument's are not.
// RUN: mg-opt --resolve-layout %s | filecheck %s
// RUN: mg-opt --resolve-layout --resolve-layout --canonicalize %s | filecheck %s

// CHECK: func.func @f(%x: tensor<6x9xf16, #cute.layout<(6,9):(9,1)>>) -> tensor<6x9xf16, #cute.layout<(6,9):(16,1)>>
func.func @f(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
  %y = kn.exp %x : tensor<6x9xf16> -> tensor<6x9xf16>
  func.return %y : tensor<6x9xf16>
}

// CHECK:      func.func @twice(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
// CHECK-NEXT:   %[[X:.*]] = builtin.unrealized_conversion_cast %x : tensor<6x9xf16> to tensor<6x9xf16, #cute.layout<(6,9):(9,1)>>
// CHECK-NEXT:   %[[Y:.*]] = func.call @f(%[[X]])
// CHECK-NEXT:   %[[PLAIN:.*]] = builtin.unrealized_conversion_cast %[[Y]] : tensor<6x9xf16, #cute.layout<(6,9):(16,1)>> to tensor<6x9xf16>
// CHECK-NEXT:   %[[AGAIN:.*]] = builtin.unrealized_conversion_cast %[[PLAIN]] : tensor<6x9xf16> to tensor<6x9xf16, #cute.layout<(6,9):(9,1)>>
// CHECK-NEXT:   %[[Z:.*]] = func.call @f(%[[AGAIN]])
// CHECK-NEXT:   %[[RESULT:.*]] = builtin.unrealized_conversion_cast %[[Z]] : tensor<6x9xf16, #cute.layout<(6,9):(16,1)>> to tensor<6x9xf16>
// CHECK-NEXT:   func.return %[[RESULT]] : tensor<6x9xf16>
func.func @twice(%x: tensor<6x9xf16>) -> tensor<6x9xf16> {
  %y = func.call @f(%x) : (tensor<6x9xf16>) -> tensor<6x9xf16>
  %z = func.call @f(%y) : (tensor<6x9xf16>) -> tensor<6x9xf16>
  func.return %z : tensor<6x9xf16>
}
