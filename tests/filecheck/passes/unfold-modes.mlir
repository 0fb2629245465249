// Operators see views with a stride a dimension; windows where no strides say what they see.
// RUN: mg-opt --unfold-modes %s | filecheck %s
// RUN: mg-opt --unfold-modes %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --transpile="arch=sm_90a" -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-run --check %s | filecheck %s --check-prefix RIGHT

// CHECK-DAG: %b_1 = kn.view %b : {{.*}} -> tensor<3x8x16xf16, #cute.layout<(3,8,16):(8,1,24)>>
// CHECK-DAG: %b_2 = kn.reshape %b_1 : {{.*}} -> tensor<24x16xf16>
// CHECK-DAG: %a_1 = kn.view %a : {{.*}} -> tensor<5x3x3x8xf16, #cute.layout<(5,3,3,8):(24,240,120,1)>>
// CHECK-DAG: %a_2 = kn.windows %a_1 modes [array<i64: 3, 1, 1, 5, 0, 1>, array<i64: 8, 3, 1, 3, 2, 1>] origin [0, 0, 0, 0] : {{.*}} -> tensor<15x24xf16>
// CHECK: %o = kn.matmul %a_2, %b_2 : (tensor<15x24xf16>, tensor<24x16xf16>) -> tensor<15x16xf16>
// CHECK-NEXT: %o_1 = kn.reshape %o : tensor<15x16xf16> -> tensor<5x3x16xf16, #cute.layout<(5,3,16):(48,16,1)>>
// CHECK-NEXT: %o_2 = kn.view %o_1
// CHECK-NEXT: func.return %o_2 : tensor<15x16xf16, #cute.layout<((3,5),16):((16,48),1)>>
// PROOF: proved equal
// CUDA: tb::WindowPlaces<
// RIGHT: output 0, 15x16
func.func @gett(%a: tensor<15x24xf16, #cute.layout<((3,5),(8,3)):((240,24),(1,120))>>, %b: tensor<24x16xf16, #cute.layout<((8,3),16):((1,8),24)>>) -> tensor<15x16xf16, #cute.layout<((3,5),16):((16,48),1)>> {
  %o = kn.matmul %a, %b : (tensor<15x24xf16, #cute.layout<((3,5),(8,3)):((240,24),(1,120))>>, tensor<24x16xf16, #cute.layout<((8,3),16):((1,8),24)>>) -> tensor<15x16xf16, #cute.layout<((3,5),16):((16,48),1)>>
  func.return %o : tensor<15x16xf16, #cute.layout<((3,5),16):((16,48),1)>>
}
