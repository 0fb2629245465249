// RUN: mg-opt --use-peers=everywhere %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// Few bytes are loaded from the others; all of a group in the order of places, whatever the device.
// CHECK-LABEL: func.func @f
// CHECK: [[A:%.*]] = kn.peer %e axes [1] place 0 : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: [[B:%.*]] = kn.peer %e axes [1] place 1 : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: [[C:%.*]] = kn.peer %e axes [1] place 2 : tensor<4x8xf16> -> tensor<4x8xf16>
// CHECK: [[AB:%.*]] = kn.add [[A]], [[B]] : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
// CHECK: [[S:%.*]] = kn.add [[AB]], [[C]] : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
// CHECK: kn.peer [[S]] axes [0] place 0
// CHECK: kn.peer [[S]] axes [0] place 1
// CHECK: kn.all_slice {{%.*}} axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x4xf16>
// CHECK: kn.all_slice {{%.*}} axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x4xf16>
// CHECK: [[R:%.*]] = kn.max
// CHECK: kn.peer [[R]] axes [0] place 0
// CHECK: kn.peer [[R]] axes [0] place 1
// CHECK: kn.concat {{%.*}}, {{%.*}} dim 1 : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x8xf16>
func.func @f(%x: tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[1], [0]]>})
    -> (tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2, 3], mugraph.per_device} {
  %e = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  %s = kn.all_reduce %e axes [1] : tensor<4x8xf16> -> tensor<4x8xf16>
  %r = kn.reduce_scatter %s combine max axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x4xf16>
  %g = kn.all_gather %r axes [0] dim 1 : tensor<4x4xf16> -> tensor<4x8xf16>
  func.return %g : tensor<4x8xf16>
}
