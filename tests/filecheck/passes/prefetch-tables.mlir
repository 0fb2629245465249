// A kernel asks for the tiles of a table before it waits for the kernel that writes a row of it; what the kernels
// before compute is not asked for.

// RUN: mg-opt --prefetch-tables --check-hazards %s | filecheck %s
// RUN: mg-opt --prefetch-tables -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --prefetch-tables=arch=sm_80 %s | filecheck %s --check-prefix WITHOUT

// CHECK:      sched.prologue {
// CHECK-NEXT:   sched.prefetch %dt_tile iteration 0
// CHECK-NEXT:   sched.prefetch %dt_tile iteration 1
// CHECK-NEXT:   sched.grid_wait

// Of the second tile the first 32 rows exist.
// CUDA:      if (thread == 0) tb::prefetch(dt_tile, tb::existing<96, 128, 64>(0, 0) * 128);
// CUDA-NEXT: if (thread == 0) tb::prefetch(dt_tile + 4096, tb::existing<96, 128, 64>(0, 1) * 128);
// CUDA-NEXT: tb::grid_wait();

// WITHOUT-NOT: sched.prefetch
sched.kernel @step_custom0 inputs 2 grid [1, 1, 1] block [128, 1, 1] smem 16768 resident 1 forloop 2 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<1x96xf16, (1,96):(96,1)>, %dt: !sched.global<96x64xf16, (96,64):(64,1)>, %y: !sched.global<1x64xf16, (1,64):(64,1)>):
  %sx = sched.alloc stages 2 offset 16384 : !sched.shared<1x64xf16, (1,64):(64,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<1x96xf16, (1,96):(96,1)> -> !sched.global<1x64xf16, (1,64):(96,1)>
  %st = sched.alloc stages 2 offset 0 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %dt_tile = sched.local_tile %dt map [-1, -1, -1] fordim 0 : !sched.global<96x64xf16, (96,64):(64,1)> -> !sched.global<64x64xf16, (64,64):(64,1)>
  %c = sched.empty : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
  %c_1 = sched.alloc offset 16640 : !sched.shared<1x64xf16, (1,64):(64,1)>
  %y_tile = sched.local_tile %y map [-1, -1, -1] : !sched.global<1x64xf16, (1,64):(64,1)> -> !sched.global<1x64xf16, (1,64):(64,1)>
  %c_2, %0, %1 = sched.prologue {
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> iteration 0 within [1] : !sched.global<1x64xf16, (1,64):(96,1)> to !sched.shared<1x64xf16, (1,64):(64,1)>
    sched.copy async %dt_tile to %st by <128, vector 8, order [1, 0]> iteration 0 within [0] : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
    %2 = sched.commit
    sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> iteration 1 within [1] : !sched.global<1x64xf16, (1,64):(96,1)> to !sched.shared<1x64xf16, (1,64):(64,1)>
    sched.copy async %dt_tile to %st by <128, vector 8, order [1, 0]> iteration 1 within [0] : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
    %3 = sched.commit
    %c_3 = sched.fill %c with 0.000000e+00 : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    sched.yield %c_3, %2, %3 : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>, !sched.token, !sched.token
  } -> !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>, !sched.token, !sched.token
  %c_4, %4, %5 = sched.forloop 2 carrying %c_2, %0, %1 : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>, !sched.token, !sched.token {
  ^bb0(%c_5: !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>, %6: !sched.token, %7: !sched.token):
    sched.wait pending 1 for %6
    sched.barrier
    %8 = sched.commit
    %c_6 = sched.mma %sx, %st to %c_5 ldmatrix [true, true] : !sched.shared<1x64xf16, (1,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    sched.yield %c_6, %7, %8 : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>, !sched.token, !sched.token
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %c_4 to %c_1 : !sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>> to !sched.shared<1x64xf16, (1,64):(64,1)>
    sched.barrier
    sched.copy %c_1 to %y_tile by <128, vector 8, order [1, 0]> : !sched.shared<1x64xf16, (1,64):(64,1)> to !sched.global<1x64xf16, (1,64):(64,1)>
  }
}
func.func @step(%new: tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, %table: tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, %at: tensor<1xi64, #cute.layout<(1):(1)>>, %x: tensor<1x96xf16, #cute.layout<(1,96):(96,1)>>) -> (tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>) attributes {kn.workspace_bytes = 0 : i64} {
  %rows = kn.scatter %new into %table rows %at dim 0 workspace [-1] {kn.overlaps} : (tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<1xi64, #cute.layout<(1):(1)>>) -> tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>
  %y = sched.launch @step_custom0 %x, %rows workspace [-1] : (tensor<1x96xf16, #cute.layout<(1,96):(96,1)>>, tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>) -> tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>
  func.return %rows, %y : tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>
}
