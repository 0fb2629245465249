// What a softmax leaves behind the end, 0, stays there in parts of its rows, in copies of them and in concatenations of such:
// the product masks its right operand alone. Where one of two parts may have anything there, it masks both.
// RUN: mg-opt --bucket-extents %s | filecheck %s

// CHECK-LABEL: func.func @known
// CHECK: %[[SCORES:.*]] = kn.mask %s {{.*}} else -inf
// CHECK-NEXT: kn.softmax %[[SCORES]] dim 2 or_zero
// CHECK-NOT: kn.mask %b
// CHECK: kn.mask %v {{.*}} else 0.000000e+00
// CHECK-NEXT: kn.matmul %b,
func.func @known(%s: tensor<2x4x?xf16> {mugraph.extent = ["", "", "n"]}, %v: tensor<6x?x16xf16> {mugraph.extent = ["", "n", ""]}, %n: tensor<1xi32>) -> tensor<6x4x16xf16> attributes {mugraph.extents = {n = {largest = 64, held = 2}}} {
  %p = kn.softmax %s dim 2 : tensor<2x4x?xf16> -> tensor<2x4x?xf16>
  %h = kn.slice %p from [1, 0, 0] : tensor<2x4x?xf16> -> tensor<1x4x?xf16>
  %w = kn.broadcast %h : tensor<1x4x?xf16> -> tensor<4x4x?xf16>
  %b = kn.concat %p, %w dim 0 : (tensor<2x4x?xf16>, tensor<4x4x?xf16>) -> tensor<6x4x?xf16>
  %o = kn.matmul %b, %v : (tensor<6x4x?xf16>, tensor<6x?x16xf16>) -> tensor<6x4x16xf16>
  func.return %o : tensor<6x4x16xf16>
}

// CHECK-LABEL: func.func @unknown
// CHECK: kn.softmax
// CHECK: kn.mask %b {{.*}} else 0.000000e+00
// CHECK: kn.mask %v {{.*}} else 0.000000e+00
func.func @unknown(%s: tensor<2x4x?xf16> {mugraph.extent = ["", "", "n"]}, %v: tensor<4x?x16xf16> {mugraph.extent = ["", "n", ""]}, %n: tensor<1xi32>) -> tensor<4x4x16xf16> attributes {mugraph.extents = {n = {largest = 64, held = 2}}} {
  %p = kn.softmax %s dim 2 : tensor<2x4x?xf16> -> tensor<2x4x?xf16>
  %b = kn.concat %p, %s dim 0 : (tensor<2x4x?xf16>, tensor<2x4x?xf16>) -> tensor<4x4x?xf16>
  %o = kn.matmul %b, %v : (tensor<4x4x?xf16>, tensor<4x?x16xf16>) -> tensor<4x4x16xf16>
  func.return %o : tensor<4x4x16xf16>
}
