// A recurrence whose decays are exponentials becomes products of matrices in chunks, and a scan of what chunks leave.
// RUN: mg-opt --chunk-scans %s | filecheck %s
// RUN: mg-opt --chunk-scans %s | mg-run - --check | filecheck %s --check-prefix SAME

// CHECK-LABEL: @decayed
// CHECK:      %[[BELOW:.*]] = kn.mask %{{.*}} where affine_set<(d0, d1, d2) : ((d1 + (d2 * -1)) >= 0)> else -inf
// CHECK-NEXT: %[[BETWEEN:.*]] = kn.exp %[[BELOW]] : tensor<2x48x48xf32> -> tensor<2x48x48xf32>
// CHECK:      %[[INSIDE:.*]] = kn.matmul %{{.*}}, %{{.*}} : (tensor<2x48x48xf16>, tensor<2x48x32xf16>) -> tensor<2x48x32xf32>
// CHECK:      %[[BEFORE:.*]] = kn.scan %{{.*}} decay %{{.*}} exclusive dim 0 : (tensor<2x1x32xf32>, tensor<2x1x1xf32>) -> tensor<2x1x32xf32>
// CHECK:      kn.add %[[INSIDE]], %{{.*}} : (tensor<2x48x32xf32>, tensor<2x48x32xf32>) -> tensor<2x48x32xf16>
// SAME: check: output 0
func.func @decayed(%x: tensor<96x32xf16>, %g: tensor<96x1xf32>) -> tensor<96x32xf16> {
  %a = kn.sigmoid %g : tensor<96x1xf32> -> tensor<96x1xf32>
  %h = kn.scan %x decay %a dim 0 : (tensor<96x32xf16>, tensor<96x1xf32>) -> tensor<96x32xf16>
  func.return %h : tensor<96x32xf16>
}
