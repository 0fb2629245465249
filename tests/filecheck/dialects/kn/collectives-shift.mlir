// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --expand-mesh %s | filecheck %s --check-prefix=EXPAND
// RUN: mg-run %s --check

// A member is so many places further than the device itself; the first one comes behind the last one.
// CHECK: kn.all_slice %x axes [0] dim 0 shift 1 : tensor<6x4xf32> -> tensor<2x4xf32>
// CHECK: kn.peer %e axes [0] shift 2 : tensor<2x4xf32> -> tensor<2x4xf32>

// Each device takes the rows of the next one, and then what the one before made of its own.
// EXPAND: [[X1:%.*]] = kn.slice %x from [2, 0]
// EXPAND: [[X2:%.*]] = kn.slice %x from [4, 0]
// EXPAND: [[X0:%.*]] = kn.slice %x from [0, 0]
// EXPAND: [[E1:%.*]] = kn.exp [[X1]]
// EXPAND: [[E2:%.*]] = kn.exp [[X2]]
// EXPAND: [[E0:%.*]] = kn.exp [[X0]]
// EXPAND: kn.concat [[E0]], [[E1]], [[E2]] dim 0
func.func @f(%x: tensor<6x4xf32>) -> (tensor<2x4xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    attributes {mugraph.mesh = [3], mugraph.per_device} {
  %s = kn.all_slice %x axes [0] dim 0 shift 1 : tensor<6x4xf32> -> tensor<2x4xf32>
  %e = kn.exp %s : tensor<2x4xf32> -> tensor<2x4xf32>
  %p = kn.peer %e axes [0] shift 2 : tensor<2x4xf32> -> tensor<2x4xf32>
  func.return %p : tensor<2x4xf32>
}
