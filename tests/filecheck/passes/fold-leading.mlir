// Leading dimensions that a program treats alike become one where products have three of them: grids have three axes.
// RUN: mg-opt --fold-leading %s | filecheck %s
// RUN: mg-opt --fold-leading %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --fold-leading %s | mg-run - --check | filecheck %s --check-prefix SAME

// PROOF: proved equal
// SAME: check: output 0
// CHECK-LABEL: @products
func.func @products(
  %q: tensor<2x2x3x8x16xf16>, %k: tensor<2x2x1x16x8xf16>,
  %padded: tensor<2x2x3x8x16xf16, #cute.layout<(2,2,3,8,16):(1024,384,128,16,1)>>, %w: tensor<2x2x3x16x8xf16>,
  %x: tensor<2x3x8x16xf16>, %z: tensor<2x3x16x8xf16>
) -> (tensor<2x2x3x8x1xf16>, tensor<2x2x3x8x8xf16>, tensor<2x3x8x8xf16>) {
  // Keys have one element along the group: batch and heads become one, and other dimensions come one earlier.
  // CHECK-NEXT: %[[KEYS:.*]] = kn.reshape %k : tensor<2x2x1x16x8xf16> -> tensor<4x1x16x8xf16>
  // CHECK-NEXT: %[[EACH:.*]] = kn.broadcast %[[KEYS]] : tensor<4x1x16x8xf16> -> tensor<4x3x16x8xf16>
  // CHECK-NEXT: %[[ROWS:.*]] = kn.reshape %q : tensor<2x2x3x8x16xf16> -> tensor<4x3x8x16xf16>
  // CHECK-NEXT: %[[SCORES:.*]] = kn.matmul %[[ROWS]], %[[EACH]] : (tensor<4x3x8x16xf16>, tensor<4x3x16x8xf16>) -> tensor<4x3x8x8xf16>
  // CHECK-NEXT: %[[KEPT:.*]] = kn.mask %[[SCORES]] where affine_set<(d0, d1, d2, d3) : ((d2 + (d3 * -1)) >= 0)> else 0.000000e+00
  // CHECK-NEXT: %[[SUM:.*]] = kn.reduction %[[KEPT]] dim 3 : tensor<4x3x8x8xf16> -> tensor<4x3x8x1xf16>
  // CHECK-NEXT: %[[FIRST:.*]] = kn.reshape %[[SUM]] : tensor<4x3x8x1xf16> -> tensor<2x2x3x8x1xf16>
  %each = kn.broadcast %k : tensor<2x2x1x16x8xf16> -> tensor<2x2x3x16x8xf16>
  %s = kn.matmul %q, %each : (tensor<2x2x3x8x16xf16>, tensor<2x2x3x16x8xf16>) -> tensor<2x2x3x8x8xf16>
  %kept = kn.mask %s where affine_set<(b, h, g, i, j) : (i - j >= 0)> else 0.0 : tensor<2x2x3x8x8xf16> -> tensor<2x2x3x8x8xf16>
  %y = kn.reduction %kept dim 4 : tensor<2x2x3x8x8xf16> -> tensor<2x2x3x8x1xf16>

  // Batches are not right behind each other in memory, heads are.
  // CHECK: kn.matmul {{.*}} -> tensor<2x6x8x8xf16>
  %t = kn.matmul %padded, %w : (tensor<2x2x3x8x16xf16, #cute.layout<(2,2,3,8,16):(1024,384,128,16,1)>>, tensor<2x2x3x16x8xf16>) -> tensor<2x2x3x8x8xf16>

  // An axis is left for the rows of a product with two leading dimensions.
  // CHECK: kn.matmul %x, %z
  %u = kn.matmul %x, %z : (tensor<2x3x8x16xf16>, tensor<2x3x16x8xf16>) -> tensor<2x3x8x8xf16>
  // CHECK-NEXT: func.return %[[FIRST]]
  func.return %y, %t, %u : tensor<2x2x3x8x1xf16>, tensor<2x2x3x8x8xf16>, tensor<2x3x8x8xf16>
}
