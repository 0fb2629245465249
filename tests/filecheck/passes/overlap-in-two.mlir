// RUN: mg-opt --overlap-collectives="everywhere way=two" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check
// RUN: not mg-opt --overlap-collectives="everywhere way=three" %s 2>&1 | filecheck %s --check-prefix=NONE

// NONE: --overlap-collectives: way=three is none of parts, two, fused, pushed

// Each device adds up the parts that it got, and writes the sum of them for all members.
// CHECK-LABEL: func.func @f
// CHECK: [[Y0:%.*]] = kn.matmul {{.*}} {mugraph.part = array<i64: 0, 0>}
// CHECK: [[Y1:%.*]] = kn.matmul {{.*}} {mugraph.part = array<i64: 1, 0>}
// CHECK: [[D:%.*]] = kn.all_to_all {{%.*}} axes [0] split 0 concat 0 delivered : tensor<16x128xbf16>
// CHECK-NEXT: [[D0:%.*]] = kn.slice [[D]] from [0, 0]
// CHECK-NEXT: [[D1:%.*]] = kn.slice [[D]] from [8, 0]
// CHECK-NEXT: [[S:%.*]] = kn.add [[D0]], [[D1]]
// CHECK-NEXT: [[C0:%.*]] = kn.copy [[S]] place 0
// CHECK-NEXT: [[C1:%.*]] = kn.copy [[S]] place 1
// CHECK-NEXT: [[C:%.*]] = kn.concat [[C0]], [[C1]] dim 0
// CHECK-NEXT: [[A:%.*]] = kn.all_to_all [[C]] axes [0] split 0 concat 0 delivered : tensor<16x128xbf16>
// CHECK-NEXT: kn.rms_norm [[A]]
// CHECK-NOT: kn.peer
func.func @f(%x: tensor<16x256xbf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<256x128xbf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x128xbf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<16x256xbf16>, tensor<256x128xbf16>) -> tensor<16x128xbf16>
  %s = kn.all_reduce %y axes [0] : tensor<16x128xbf16> -> tensor<16x128xbf16>
  %n = kn.rms_norm %s over [128] : (tensor<16x128xbf16>) -> tensor<16x128xbf16>
  func.return %n : tensor<16x128xbf16>
}
