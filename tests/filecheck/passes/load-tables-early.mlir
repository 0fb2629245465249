// A kernel loads a table before it waits for the kernel that writes a row of it, and that row behind the wait.

// RUN: mg-opt --load-tables-early=least=0 --check-hazards %s | filecheck %s
// RUN: mg-opt --load-tables-early=least=0 -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --load-tables-early %s | filecheck %s --check-prefix FEW

// Where blocks load little of it, that is not worth it.
// FEW-NOT: early :

// The kernel gets the number of the row.
// CHECK:      sched.kernel @step_custom0 inputs 3 {{.*}} arriving [0, 2, 0]
// CHECK:      sched.copy async %dr_tile to %sr {{.*}} iteration 0 early
// CHECK-NEXT: sched.commit
// CHECK-NEXT: sched.grid_wait
// CHECK-NEXT: sched.wait pending 0
// CHECK:      sched.copy async %dr_tile to %sr {{.*}} iteration 0 arriving
// CHECK:      sched.launch @step_custom0 %rows, %q, %at

// CUDA: tb::CopyRow<64, 8, Target, Source, 64, 32>::run(sr, dr_tile, thread, tb::row_in_tile<96>({{.*}}, 32 * blockIdx.x));
sched.kernel @step_custom0 inputs 2 grid [3, 1, 1] block [64, 1, 1] smem 5632 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dr: !sched.global<96x64xf16, (96,64):(64,1)>, %dq: !sched.global<64x8xf16, (64,8):(8,1)>, %y: !sched.global<96x8xf16, (96,8):(8,1)>):
  %sr = sched.alloc offset 0 : !sched.shared<32x64xf16, S<3,3,3> o (32,64):(64,1)>
  %dr_tile = sched.local_tile %dr map [0, -1, -1] : !sched.global<96x64xf16, (96,64):(64,1)> -> !sched.global<32x64xf16, (32,64):(64,1)>
  %sq = sched.alloc offset 4096 : !sched.shared<64x8xf16, (64,8):(8,1)>
  %dq_tile = sched.local_tile %dq map [-1, -1, -1] : !sched.global<64x8xf16, (64,8):(8,1)> -> !sched.global<64x8xf16, (64,8):(8,1)>
  %m = sched.empty : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %m_1 = sched.alloc offset 5120 : !sched.shared<32x8xf16, (32,8):(8,1)>
  %y_tile = sched.local_tile %y map [0, -1, -1] : !sched.global<96x8xf16, (96,8):(8,1)> -> !sched.global<32x8xf16, (32,8):(8,1)>
  %m_2, %0, %1 = sched.prologue {
    sched.prefetch %dr_tile iteration 0 : !sched.global<32x64xf16, (32,64):(64,1)>
    sched.grid_wait
    sched.copy async %dq_tile to %sq by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<64x8xf16, (64,8):(8,1)> to !sched.shared<64x8xf16, (64,8):(8,1)>
    %2 = sched.commit
    sched.copy async %dr_tile to %sr by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<32x64xf16, (32,64):(64,1)> to !sched.shared<32x64xf16, S<3,3,3> o (32,64):(64,1)>
    %3 = sched.commit
    %m_3 = sched.fill %m with 0.000000e+00 : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    sched.yield %m_3, %2, %3 : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.token, !sched.token
  } -> !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.token, !sched.token
  %m_4 = sched.forloop 1 carrying %m_2 : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> {
  ^bb0(%m_5: !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>):
    sched.wait pending 1 for %0
    sched.wait pending 0 for %1
    sched.barrier
    %m_6 = sched.mma %sr, %sq to %m_5 ldmatrix [true, true] : !sched.shared<32x64xf16, S<3,3,3> o (32,64):(64,1)>, !sched.shared<64x8xf16, (64,8):(8,1)> to !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    sched.yield %m_6 : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %m_4 to %m_1 : !sched.tile<32x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.shared<32x8xf16, (32,8):(8,1)>
    sched.barrier
    sched.copy %m_1 to %y_tile by <64, vector 8, order [1, 0]> : !sched.shared<32x8xf16, (32,8):(8,1)> to !sched.global<32x8xf16, (32,8):(8,1)>
  }
} {sched.schedule_certificate = {barriers = 2 : i64, barrier_bound = 2 : i64, peak = 5632 : i64, peak_bound = 5632 : i64, optimal = true}, sched.memory_certificate = {bound = 5632 : i64, method = "first fit", optimal = true, peak = 5632 : i64}}
func.func @step(%new: tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, %table: tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, %at: tensor<1xi64, #cute.layout<(1):(1)>>, %q: tensor<64x8xf16, #cute.layout<(64,8):(8,1)>>) -> (tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<96x8xf16, #cute.layout<(96,8):(8,1)>>) attributes {mugraph.layout_certificate = {bound = 63880 : i64, cost = 63880 : i64, status = "optimal"}, kn.workspace_bytes = 0 : i64} {
  %rows = kn.scatter %new into %table rows %at dim 0 workspace [-1] {kn.overlaps} : (tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<1xi64, #cute.layout<(1):(1)>>) -> tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>
  %y = sched.launch @step_custom0 %rows, %q workspace [-1] : (tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<64x8xf16, #cute.layout<(64,8):(8,1)>>) -> tensor<96x8xf16, #cute.layout<(96,8):(8,1)>>
  func.return %rows, %y : tensor<96x64xf16, #cute.layout<(96,64):(64,1)>>, tensor<96x8xf16, #cute.layout<(96,8):(8,1)>>
}
