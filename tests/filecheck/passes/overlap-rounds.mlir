// RUN: mg-opt --overlap-collectives="everywhere rounds=2" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// Rows of a sum that all devices need are computed in rounds: what is gathered of the first one comes during the second one.
// CHECK-LABEL: func.func @f
// CHECK: kn.slice %x from [0, 0] {mugraph.round = 0 : i64, mugraph.part = array<i64: 0, 0>} : tensor<8x16xf16> -> tensor<2x16xf16>
// CHECK: kn.slice %x from [2, 0] {mugraph.round = 0 : i64, mugraph.part = array<i64: 1, 0>} : tensor<8x16xf16> -> tensor<2x16xf16>
// CHECK: kn.slice %x from [4, 0] {mugraph.round = 1 : i64, mugraph.part = array<i64: 0, 0>} : tensor<8x16xf16> -> tensor<2x16xf16>
// CHECK: kn.all_to_all {{.*}} delivered {mugraph.round = 0 : i64} : tensor<4x12xf16> -> tensor<4x12xf16>
// CHECK: [[A0:%.*]] = kn.copy {{.*}} {mugraph.part = array<i64: 0, 0>, mugraph.round = 0 : i64}
// CHECK: [[A1:%.*]] = kn.copy {{.*}} {mugraph.part = array<i64: 1, 0>, mugraph.round = 0 : i64}
// CHECK: kn.all_to_all {{.*}} delivered {mugraph.round = 1 : i64}
// CHECK: [[B0:%.*]] = kn.copy {{.*}} {mugraph.part = array<i64: 0, 0>, mugraph.round = 1 : i64}
// CHECK: [[B1:%.*]] = kn.copy {{.*}} {mugraph.part = array<i64: 1, 0>, mugraph.round = 1 : i64}
// CHECK: kn.concat [[A0]], [[A1]], [[B0]], [[B1]] dim 0
func.func @f(%x: tensor<8x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<16x12xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
             %r: tensor<8x12xf16>)
    -> (tensor<8x12xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %m = kn.matmul %x, %w : (tensor<8x16xf16>, tensor<16x12xf16>) -> tensor<8x12xf16>
  %s = kn.silu %m : tensor<8x12xf16> -> tensor<8x12xf16>
  %a = kn.all_reduce %s axes [0] : tensor<8x12xf16> -> tensor<8x12xf16>
  %y = kn.add %a, %r : (tensor<8x12xf16>, tensor<8x12xf16>) -> tensor<8x12xf16>
  func.return %y : tensor<8x12xf16>
}
