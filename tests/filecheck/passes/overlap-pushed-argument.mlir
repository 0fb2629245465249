// RUN: mg-opt --overlap-collectives %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check

// A sum of an argument: the kernel that copies it writes it for all members.
// CHECK-LABEL: func.func @f
// CHECK: [[C0:%.*]] = kn.copy %x place 0
// CHECK-NEXT: [[C1:%.*]] = kn.copy %x place 1
// CHECK: kn.all_to_all {{.*}} delivered
// CHECK-NOT: kn.all_reduce
func.func @f(%x: tensor<16x128xbf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x128xbf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %s = kn.all_reduce %x axes [0] : tensor<16x128xbf16> -> tensor<16x128xbf16>
  func.return %s : tensor<16x128xbf16>
}
