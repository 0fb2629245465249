// Tiles that all come before a loop of one iteration are waited for where they are read, in groups of their own.

// RUN: mg-opt --wait-apart --check-hazards %s | filecheck %s
// RUN: sed '/sched.prefetch/d' %s | mg-opt --wait-apart | filecheck %s --check-prefix ALONE

// What asks for none of them before it waits is left alone.
// ALONE-NOT: sched.wait pending 1

// CHECK:      sched.grid_wait
// CHECK-NEXT: sched.copy async %dx_tile to %sx
// CHECK-NEXT: sched.copy async %da_tile to %sa
// CHECK-NEXT: {{.*}} = sched.commit
// CHECK-NEXT: sched.copy async %db_tile to %sb
// CHECK-NEXT: sched.commit
// CHECK:      sched.forloop 1
// CHECK:      sched.wait pending 1
// CHECK-NEXT: sched.barrier
// CHECK:      sched.mma %sx, %sa
// CHECK:      sched.wait pending 0
// CHECK-NEXT: sched.barrier
// CHECK:      sched.mma %m, %sb
sched.kernel @chain_custom0 inputs 3 grid [1, 1, 1] block [64, 1, 1] smem 16384 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<16x64xf16, (16,64):(64,1)>, %da: !sched.global<64x64xf16, (64,64):(64,1)>, %db: !sched.global<64x32xf16, (64,32):(32,1)>, %y: !sched.global<16x32xf16, (16,32):(32,1)>):
  %sx = sched.alloc offset 12288 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  %sa = sched.alloc offset 0 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %da_tile = sched.local_tile %da map [-1, -1, -1] : !sched.global<64x64xf16, (64,64):(64,1)> -> !sched.global<64x64xf16, (64,64):(64,1)>
  %sb = sched.alloc offset 8192 : !sched.shared<64x32xf16, S<2,3,3> o (64,32):(32,1)>
  %db_tile = sched.local_tile %db map [-1, -1, -1] : !sched.global<64x32xf16, (64,32):(32,1)> -> !sched.global<64x32xf16, (64,32):(32,1)>
  %m = sched.alloc offset 14336 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %n = sched.empty : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %n_1 = sched.alloc offset 0 : !sched.shared<16x32xf16, S<2,3,3> o (16,32):(32,1)>
  %y_tile = sched.local_tile %y map [-1, -1, -1] : !sched.global<16x32xf16, (16,32):(32,1)> -> !sched.global<16x32xf16, (16,32):(32,1)>
  %n_2, %0 = sched.prologue {
    sched.prefetch %db_tile iteration 0 : !sched.global<64x32xf16, (64,32):(32,1)>
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
    sched.copy async %da_tile to %sa by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
    sched.copy async %db_tile to %sb by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<64x32xf16, (64,32):(32,1)> to !sched.shared<64x32xf16, S<2,3,3> o (64,32):(32,1)>
    %1 = sched.commit
    %n_3 = sched.fill %n with 0.000000e+00 : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %n_3, %1 : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  } -> !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  %n_4 = sched.forloop 1 carrying %n_2 : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> {
  ^bb0(%n_5: !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>):
    sched.wait pending 0 for %0
    sched.barrier
    %m_1 = sched.empty : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    %m_2 = sched.fill %m_1 with 0.000000e+00 : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    %m_3 = sched.mma %sx, %sa to %m_2 ldmatrix [true, true] : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.store %m_3 to %m : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
    sched.barrier
    %n_6 = sched.mma %m, %sb to %n_5 ldmatrix [true, true] : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>, !sched.shared<64x32xf16, S<2,3,3> o (64,32):(32,1)> to !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %n_6 : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %n_4 to %n_1 : !sched.tile<16x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<16x32xf16, S<2,3,3> o (16,32):(32,1)>
    sched.barrier
    sched.copy %n_1 to %y_tile by <64, vector 8, order [1, 0]> : !sched.shared<16x32xf16, S<2,3,3> o (16,32):(32,1)> to !sched.global<16x32xf16, (16,32):(32,1)>
  }
}
func.func @chain(%x: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>, %a: tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>, %b: tensor<64x32xf16, #cute.layout<(64,32):(32,1)>>) -> tensor<16x32xf16, #cute.layout<(16,32):(32,1)>> attributes {kn.workspace_bytes = 0 : i64} {
  %y = sched.launch @chain_custom0 %x, %a, %b workspace [-1] : (tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>, tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>, tensor<64x32xf16, #cute.layout<(64,32):(32,1)>>) -> tensor<16x32xf16, #cute.layout<(16,32):(32,1)>>
  func.return %y : tensor<16x32xf16, #cute.layout<(16,32):(32,1)>>
}
