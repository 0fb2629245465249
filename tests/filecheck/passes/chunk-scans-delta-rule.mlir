// The delta rule in chunks: the inverse of a triangle by its blocks, and a recurrence over chunks whose matrices are products.
// RUN: mg-opt --chunk-scans %s | filecheck %s
// RUN: mg-opt --chunk-scans %s | mg-run - --check | filecheck %s --check-prefix SAME

// CHECK-LABEL: @delta
// CHECK:      %[[BELOW:.*]] = kn.mask %{{.*}} where affine_set<(d0, d1, d2, d3) : (((d2 + (d3 * -1)) + -1) >= 0)> else -inf
// CHECK-NEXT: kn.exp %[[BELOW]] : tensor<2x2x16x16xf32> -> tensor<2x2x16x16xf32>
// CHECK:      %[[SQUARE:.*]] = kn.matmul %[[N:.*]], %[[N]] : (tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xf32>
// CHECK:      kn.matmul %{{.*}}, %[[SQUARE]]
// CHECK:      %[[STEP:.*]] = kn.matmul %{{.*}}, %{{.*}} : (tensor<2x2x16x16xf32>, tensor<2x2x16x16xf32>) -> tensor<2x2x16x16xf32>
// CHECK:      kn.matmul %[[STEP]], %[[STEP]]
// CHECK:      %[[BEFORE:.*]] = kn.recurrence %{{.*}} plus %{{.*}} decay %{{.*}} : tensor<2x2x1x1xf32> exclusive dim 1 : (tensor<2x2x8x16xf16>, tensor<2x2x8x8xf16>) -> tensor<2x2x8x16xf16>
// CHECK:      kn.matmul %{{.*}}, %[[BEFORE]]
// SAME: check: output 0
func.func @delta(%q: tensor<2x32x8x1xf16>, %k: tensor<2x32x8x1xf16>, %v: tensor<2x32x1x16xf16>, %g: tensor<2x32x1x1xf32>) -> tensor<2x32x1x16xf32> {
  %a = kn.sigmoid %g : tensor<2x32x1x1xf32> -> tensor<2x32x1x1xf32>
  %kv = kn.mul %k, %v : (tensor<2x32x8x1xf16>, tensor<2x32x1x16xf16>) -> tensor<2x32x8x16xf32>
  %kt = kn.reshape %k : tensor<2x32x8x1xf16> -> tensor<2x32x1x8xf16>
  %kk = kn.mul %k, %kt : (tensor<2x32x8x1xf16>, tensor<2x32x1x8xf16>) -> tensor<2x32x8x8xf32>
  %m = kn.mul_scalar %kk by -0.25 : tensor<2x32x8x8xf32> -> tensor<2x32x8x8xf32>
  %h = kn.recurrence %kv plus %m decay %a : tensor<2x32x1x1xf32> dim 1 : (tensor<2x32x8x16xf32>, tensor<2x32x8x8xf32>) -> tensor<2x32x8x16xf32>
  %qh = kn.mul %h, %q : (tensor<2x32x8x16xf32>, tensor<2x32x8x1xf16>) -> tensor<2x32x8x16xf32>
  %o = kn.reduction %qh dim 2 : tensor<2x32x8x16xf32> -> tensor<2x32x1x16xf32>
  func.return %o : tensor<2x32x1x16xf32>
}
