// RUN: mg-opt --contiguous-collectives %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// Members exchange ranges of row-major tensors.
// CHECK-LABEL: func.func @f
// CHECK: kn.all_gather %e axes [1] dim 0 : tensor<4x6x8xf32, #cute.layout<(4,6,8):(48,8,1)>> -> tensor<12x6x8xf32, #cute.layout<(12,6,8):(48,8,1)>>
// CHECK: kn.transpose {{.*}} dims [2, 0, 1]
// CHECK: kn.all_to_all {{.*}} axes [0] split 0 concat 0
// CHECK: kn.transpose {{.*}} dims [0, 2, 3, 1]
// CHECK: kn.transpose {{.*}} dims [1, 0, 2]
// CHECK: kn.reduce_scatter {{.*}} axes [1] dim 0
// CHECK: kn.transpose {{.*}} dims [1, 0, 2]
// CHECK: kn.transpose {{.*}} dims [2, 0, 1]
// CHECK: kn.all_gather {{.*}} axes [0] dim 0
// CHECK: kn.transpose {{.*}} dims [2, 3, 0, 1]
func.func @f(%x: tensor<4x6x8xf32> {mugraph.sharding = #kn.sharding<[[1], [0]]>})
    -> (tensor<12x2x8xf32> {mugraph.sharding = #kn.sharding<[[0], [1], []]>})
    attributes {mugraph.mesh = [2, 3], mugraph.per_device} {
  %e = kn.exp %x : tensor<4x6x8xf32> -> tensor<4x6x8xf32>
  %g = kn.all_gather %e axes [1] dim 0 : tensor<4x6x8xf32> -> tensor<12x6x8xf32>
  %a = kn.all_to_all %g axes [0] split 2 concat 0 : tensor<12x6x8xf32> -> tensor<24x6x4xf32>
  %s = kn.reduce_scatter %a axes [1] dim 1 : tensor<24x6x4xf32> -> tensor<24x2x4xf32>
  %r = kn.all_gather %s axes [0] dim 2 : tensor<24x2x4xf32> -> tensor<24x2x8xf32>
  %l = kn.all_slice %r axes [0] dim 0 : tensor<24x2x8xf32> -> tensor<12x2x8xf32>
  func.return %l : tensor<12x2x8xf32>
}
