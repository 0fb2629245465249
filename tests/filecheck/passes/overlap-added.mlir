// RUN: mg-opt --overlap-collectives="everywhere way=added" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// Each device computes the part of the next member first, in two ranges, which that one copies.
// CHECK-LABEL: func.func @all
// CHECK: [[X1:%.*]] = kn.all_slice %x axes [0] dim 0 shift 1 : tensor<16x16xf16> -> tensor<8x16xf16>
// CHECK: [[X1A:%.*]] = kn.slice [[X1]] from [0, 0] {mugraph.part = array<i64: 0, 1>}
// CHECK: [[Y1A:%.*]] = kn.matmul [[X1A]], %w {mugraph.part = array<i64: 0, 1>}
// CHECK: [[P1A:%.*]] = kn.peer [[Y1A]] axes [0] shift 1
// CHECK: [[T1A:%.*]] = kn.copy [[P1A]] {mugraph.part = array<i64: 0, 1>}
// CHECK: [[X1B:%.*]] = kn.slice [[X1]] from [4, 0] {mugraph.part = array<i64: 1, 1>}
// CHECK: [[Y1B:%.*]] = kn.matmul [[X1B]], %w {mugraph.part = array<i64: 1, 1>}
// CHECK: [[T1B:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 1, 1>}

// Then its own, each range of which is added to what it got, and copied by the other one.
// CHECK: [[X0:%.*]] = kn.all_slice %x axes [0] dim 0 : tensor<16x16xf16> -> tensor<8x16xf16>
// CHECK: [[X0A:%.*]] = kn.slice [[X0]] from [0, 0] {mugraph.part = array<i64: 2, 1>}
// CHECK: [[S0A:%.*]] = kn.matmul_add [[X0A]], %w, [[T1A]] {mugraph.part = array<i64: 2, 1>}
// CHECK: kn.peer [[S0A]] axes [0] place 0
// CHECK: kn.peer [[S0A]] axes [0] place 1
// CHECK: [[G0A:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[G1A:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[T1BA:%.*]] = kn.slice [[T1B]] from [0, 0] {mugraph.part = array<i64: 3, 1>}
// CHECK: kn.matmul_add {{%.*}}, %w, [[T1BA]] {mugraph.part = array<i64: 3, 1>}
// CHECK: [[G0B:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[G1B:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[T1BB:%.*]] = kn.slice [[T1B]] from [2, 0] {mugraph.part = array<i64: 4, 1>}
// CHECK: kn.matmul_add {{%.*}}, %w, [[T1BB]] {mugraph.part = array<i64: 4, 1>}
// CHECK: [[G0C:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[G1C:%.*]] = kn.copy {{%.*}} {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: kn.concat [[G0A]], [[G0B]], [[G0C]], [[G1A]], [[G1B]], [[G1C]] dim 0
func.func @all(%x: tensor<16x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %w: tensor<16x12xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x12xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<16x16xf16>, tensor<16x12xf16>) -> tensor<16x12xf16>
  %s = kn.all_reduce %y axes [0] : tensor<16x12xf16> -> tensor<16x12xf16>
  func.return %s : tensor<16x12xf16>
}
