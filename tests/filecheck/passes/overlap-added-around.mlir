// RUN: mg-opt --overlap-collectives="everywhere way=added" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// The part of a member goes around: what a device adds to is of the one before.  Sums of f32 are a kernel's.
// CHECK-LABEL: func.func @f
// CHECK: kn.all_slice %x axes [0] dim 0 shift 2
// CHECK: kn.peer {{%.*}} axes [0] shift 2
// CHECK: kn.all_slice %x axes [0] dim 0 shift 1
// CHECK: kn.add
// CHECK: kn.peer {{%.*}} axes [0] shift 2
// CHECK: kn.all_slice %x axes [0] dim 0 :
// CHECK: [[A:%.*]] = kn.add
// CHECK-NOT: kn.peer
// CHECK: [[B:%.*]] = kn.add
// CHECK: kn.concat [[A]], [[B]] dim 0
func.func @f(%x: tensor<24x16xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                 %w: tensor<16x12xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<8x12xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    attributes {mugraph.mesh = [3], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<24x16xf32>, tensor<16x12xf32>) -> tensor<24x12xf32>
  %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<24x12xf32> -> tensor<8x12xf32>
  func.return %s : tensor<8x12xf32>
}
