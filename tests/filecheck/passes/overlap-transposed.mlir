// RUN: mg-opt --overlap-collectives="everywhere way=parts" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// Each part has the transpose of the weight for itself: its function reads the weight, and none is written for all.
// CHECK-LABEL: func.func @f
// CHECK-NOT: kn.transpose %w dims [1, 0] :
// CHECK: [[W0:%.*]] = kn.transpose %w dims [1, 0] {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: kn.matmul {{%.*}}, [[W0]] {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[W1:%.*]] = kn.transpose %w dims [1, 0] {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: kn.matmul {{%.*}}, [[W1]] {mugraph.part = array<i64: 1, 1, 0>}
func.func @f(%x: tensor<8x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<8x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    -> (tensor<4x8xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %t = kn.transpose %w dims [1, 0] : tensor<8x16xf16> -> tensor<16x8xf16>
  %y = kn.matmul %x, %t : (tensor<8x16xf16>, tensor<16x8xf16>) -> tensor<8x8xf16>
  %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<8x8xf16> -> tensor<4x8xf16>
  func.return %s : tensor<4x8xf16>
}
