// RUN: mg-opt --overlap-collectives="everywhere way=fused" %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check
// RUN: not mg-opt --overlap-collectives="everywhere way=three" %s 2>&1 | filecheck %s --check-prefix=NONE

// NONE: --overlap-collectives: way=three is none of parts, fused, pushed

// Each device computes its own part behind those of others, adds what it got of them, and writes the sum for all.
// CHECK-LABEL: func.func @f
// CHECK: [[Y0:%.*]] = kn.matmul {{.*}} {mugraph.part = array<i64: 0, 0>}
// CHECK: [[Y1:%.*]] = kn.matmul {{.*}} {mugraph.part = array<i64: 1, 0>}
// CHECK: [[G0:%.*]] = kn.copy [[Y0]] place 0 {mugraph.part = array<i64: 0, 0>}
// CHECK: [[G1:%.*]] = kn.copy [[Y1]] place 1 {mugraph.part = array<i64: 1, 0>}
// CHECK: [[Y:%.*]] = kn.concat [[G0]], [[G1]] dim 0
// CHECK-NEXT: [[X:%.*]] = kn.all_slice %x axes [0] dim 0
// CHECK-NEXT: [[O:%.*]] = kn.matmul [[X]], %w
// CHECK-NEXT: [[D:%.*]] = kn.all_to_all [[Y]] axes [0] split 0 concat 0 delivered
// CHECK-NEXT: [[P:%.*]] = kn.all_slice [[D]] axes [0] dim 0 shift 1
// CHECK-NEXT: [[S:%.*]] = kn.add [[O]], [[P]]
// CHECK-NEXT: [[C0:%.*]] = kn.copy [[S]] place 0
// CHECK-NEXT: [[C1:%.*]] = kn.copy [[S]] place 1
// CHECK-NEXT: [[C:%.*]] = kn.concat [[C0]], [[C1]] dim 0
// CHECK-NEXT: [[A:%.*]] = kn.all_to_all [[C]] axes [0] split 0 concat 0 delivered
// CHECK-NEXT: kn.rms_norm [[A]]
func.func @f(%x: tensor<16x256xbf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<256x128xbf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x128xbf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<16x256xbf16>, tensor<256x128xbf16>) -> tensor<16x128xbf16>
  %s = kn.all_reduce %y axes [0] : tensor<16x128xbf16> -> tensor<16x128xbf16>
  %n = kn.rms_norm %s over [128] : (tensor<16x128xbf16>) -> tensor<16x128xbf16>
  func.return %n : tensor<16x128xbf16>
}
