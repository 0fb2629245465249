// RUN: mg-opt --overlap-collectives="everywhere way=pushed" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// A summand has other extents behind the sum, so that the product stores it.
// CHECK-LABEL: func.func @regrouped
// CHECK: [[Y:%.*]] = kn.matmul %x, %w
// CHECK-NEXT: kn.copy [[Y]] place 0
// CHECK: [[S:%.*]] = kn.add {{.*}} -> tensor<16x128xbf16>
// CHECK-NEXT: kn.reshape [[S]] : tensor<16x128xbf16> -> tensor<1x16x128xbf16>
func.func @regrouped(%x: tensor<16x256xbf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                     %w: tensor<256x128xbf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<1x16x128xbf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<16x256xbf16>, tensor<256x128xbf16>) -> tensor<16x128xbf16>
  %r = kn.reshape %y : tensor<16x128xbf16> -> tensor<1x16x128xbf16>
  %s = kn.all_reduce %r axes [0] : tensor<1x16x128xbf16> -> tensor<1x16x128xbf16>
  %e = kn.silu %s : tensor<1x16x128xbf16> -> tensor<1x16x128xbf16>
  func.return %e : tensor<1x16x128xbf16>
}
