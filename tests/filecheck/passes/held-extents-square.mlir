// Two dimensions of one extent: what is known behind the end of one says nothing of the other.
// RUN: mg-opt --bucket-extents %s | filecheck %s

// CHECK:      %[[X:.*]] = kn.mask %x where affine_set<(d0, d1)[s0] : ((((d0 * -1) + s0) + -1) >= 0)> at %n up_to [61] else -inf
// CHECK-NEXT: %[[P:.*]] = kn.softmax %[[X]] dim 0
// Its columns behind the end are of no softmax, and times 0 they are NaN.
// CHECK-NEXT: %[[Q:.*]] = kn.mask %[[P]] where affine_set<(d0, d1)[s0] : ((((d1 * -1) + s0) + -1) >= 0)> at %n up_to [61] else 0.000000e+00
// CHECK-NEXT: %[[V:.*]] = kn.mask %v
// CHECK-NEXT: kn.matmul %[[Q]], %[[V]]
// Its rows are 0 there.
// CHECK-NEXT: %[[T:.*]] = kn.transpose %[[P]] dims [1, 0]
// CHECK-NEXT: kn.matmul %[[T]], %[[V]]
func.func @square(%n: tensor<1xi32>, %x: tensor<?x?xf16> {mugraph.extent = ["n", "n"]}, %v: tensor<?x3xf16> {mugraph.extent = ["n", ""]}) -> (tensor<?x3xf16>, tensor<?x3xf16>) attributes {mugraph.extents = {n = {largest = 61, held = 0}}} {
  %p = kn.softmax %x dim 0 : tensor<?x?xf16> -> tensor<?x?xf16>
  %y = kn.matmul %p, %v : (tensor<?x?xf16>, tensor<?x3xf16>) -> tensor<?x3xf16>
  %t = kn.transpose %p dims [1, 0] : tensor<?x?xf16> -> tensor<?x?xf16>
  %z = kn.matmul %t, %v : (tensor<?x?xf16>, tensor<?x3xf16>) -> tensor<?x3xf16>
  func.return %y, %z : tensor<?x3xf16>, tensor<?x3xf16>
}
