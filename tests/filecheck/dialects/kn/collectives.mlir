// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --expand-mesh %s | filecheck %s --check-prefix=EXPAND

// CHECK-LABEL: func.func @all
// CHECK-SAME: %x: tensor<4x8xf32> {mugraph.sharding = #kn.sharding<[[0], [1]]>}
// CHECK-SAME: #kn.sharding<[[]] partial max [0]>
// CHECK-SAME: attributes {mugraph.mesh = [2 : i64, 2 : i64], mugraph.per_device}
// CHECK: kn.all_gather %x axes [1] dim 1 : tensor<4x8xf32> -> tensor<4x16xf32>
// CHECK: kn.all_to_all %g axes [0] split 1 concat 0 : tensor<4x16xf32> -> tensor<8x8xf32>
// CHECK: kn.reduce_scatter %a axes [0, 1] dim 0 : tensor<8x8xf32> -> tensor<2x8xf32>
// CHECK: kn.all_slice %s axes [1] dim 0 : tensor<2x8xf32> -> tensor<1x8xf32>
// CHECK: kn.all_reduce %l combine max axes [1] : tensor<1x8xf32> -> tensor<1x8xf32>
func.func @all(%x: tensor<4x8xf32> {mugraph.sharding = #kn.sharding<[[0], [1]]>})
    -> (tensor<1x8xf32> {mugraph.sharding = #kn.sharding<[[]] partial max [0]>})
    attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
  %g = kn.all_gather %x axes [1] dim 1 : tensor<4x8xf32> -> tensor<4x16xf32>
  %a = kn.all_to_all %g axes [0] split 1 concat 0 : tensor<4x16xf32> -> tensor<8x8xf32>
  %s = kn.reduce_scatter %a axes [0, 1] dim 0 : tensor<8x8xf32> -> tensor<2x8xf32>
  %l = kn.all_slice %s axes [1] dim 0 : tensor<2x8xf32> -> tensor<1x8xf32>
  %m = kn.all_reduce %l combine max axes [1] : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %m : tensor<1x8xf32>
}

// Devices 0 to 3 have quarters; 0 and 1, and 2 and 3, put theirs together.
// EXPAND: func.func @all(%x: tensor<8x16xf32>) -> tensor<1x8xf32> {
// EXPAND: [[A:%.*]] = kn.slice %x from [0, 0] : tensor<8x16xf32> -> tensor<4x8xf32>
// EXPAND: [[B:%.*]] = kn.slice %x from [0, 8] : tensor<8x16xf32> -> tensor<4x8xf32>
// EXPAND: [[C:%.*]] = kn.slice %x from [4, 0] : tensor<8x16xf32> -> tensor<4x8xf32>
// EXPAND: [[D:%.*]] = kn.slice %x from [4, 8] : tensor<8x16xf32> -> tensor<4x8xf32>
// EXPAND: [[AB:%.*]] = kn.concat [[A]], [[B]] dim 1
// EXPAND: [[CD:%.*]] = kn.concat [[C]], [[D]] dim 1
// EXPAND: [[LEFT:%.*]] = kn.slice [[AB]] from [0, 0] : tensor<4x16xf32> -> tensor<4x8xf32>
// EXPAND: [[LOWER:%.*]] = kn.slice [[CD]] from [0, 0] : tensor<4x16xf32> -> tensor<4x8xf32>
// EXPAND: kn.concat [[LEFT]], [[LOWER]] dim 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>

// Views see memory: what devices have of a tensor, or get, has the layout that theirs has.
// EXPAND: func.func @viewed(%y: tensor<4x4xf32>)
// EXPAND: [[TOP:%.*]] = kn.slice %y from [0, 0] : tensor<4x4xf32> -> tensor<2x4xf32>
// EXPAND: [[BOTTOM:%.*]] = kn.slice %y from [2, 0] : tensor<4x4xf32> -> tensor<2x4xf32>
// EXPAND: [[LAID:%.*]] = kn.copy [[TOP]] : {{.*}} -> tensor<2x4xf32, #cute.layout<(2,4):(4,1)>>
// EXPAND: kn.view [[LAID]] : tensor<2x4xf32, #cute.layout<(2,4):(4,1)>>
// EXPAND: [[SUM:%.*]] = kn.add
// EXPAND: [[LAID_SUM:%.*]] = kn.copy [[SUM]] : {{.*}} -> tensor<4x2xf32, #cute.layout<(4,2):(2,1)>>
// EXPAND: kn.view [[LAID_SUM]]
// EXPAND-NOT: kn.view
func.func @viewed(%y: tensor<2x4xf32, #cute.layout<(2,4):(4,1)>> {mugraph.sharding = #kn.sharding<[[0], []]>})
    -> (tensor<2x4xf32, #cute.layout<(2,4):(1,2)>> {mugraph.sharding = #kn.sharding<[[], []]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %t = kn.view %y : tensor<2x4xf32, #cute.layout<(2,4):(4,1)>> -> tensor<4x2xf32, #cute.layout<(4,2):(1,4)>>
  %s = kn.all_reduce %t axes [0] : tensor<4x2xf32, #cute.layout<(4,2):(1,4)>> -> tensor<4x2xf32, #cute.layout<(4,2):(2,1)>>
  %v = kn.view %s : tensor<4x2xf32, #cute.layout<(4,2):(2,1)>> -> tensor<2x4xf32, #cute.layout<(2,4):(1,2)>>
  func.return %v : tensor<2x4xf32, #cute.layout<(2,4):(1,2)>>
}
