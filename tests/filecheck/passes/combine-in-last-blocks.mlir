// The last block that computes a part of a tile combines all of its parts, without a launch of its own.

// RUN: mg-opt --combine-in-last-blocks %s | filecheck %s

// Parts stay where they are; counters lie behind them.
// CHECK:      func.func @f
// CHECK-SAME: kn.workspace_bytes = 8208
// CHECK:      %q0 = sched.launch @f_custom0 %x, %v resident 1
// CHECK-NEXT: %p0 = sched.launch @f_custom1 %x, %w workspace [0] {kn.joined}
// CHECK-NEXT: %r0 = sched.launch @f_custom2 %p0 last 4 counters 8192 workspace [-1] {kn.joined}
sched.kernel @f_custom0 inputs 2 constant [1] grid [4, 1, 1] block [64, 1, 1] smem 10240 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)>, %dv: !sched.global<1x4x64x64xf16, (1,4,64,64):(16384,4096,64,1)>, %q0: !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)>):
  %sx = sched.alloc offset 8192 : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
  %dx_tile = sched.local_tile %dx map [1, -1, -1] : !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)> -> !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)>
  %sv = sched.alloc offset 0 : !sched.shared<1x1x64x64xf16, S<3,3,3> o (1,1,64,64):(4096,4096,64,1)>
  %dv_tile = sched.local_tile %dv map [1, -1, -1] : !sched.global<1x4x64x64xf16, (1,4,64,64):(16384,4096,64,1)> -> !sched.global<1x1x64x64xf16, (1,1,64,64):(16384,4096,64,1)>
  %m = sched.empty : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %m_1 = sched.alloc offset 9216 : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
  %q0_tile = sched.local_tile %q0 map [1, -1, -1] : !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)> -> !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)>
  %m_2, %0 = sched.prologue {
    sched.copy async %dv_tile to %sv by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x64x64xf16, (1,1,64,64):(16384,4096,64,1)> to !sched.shared<1x1x64x64xf16, S<3,3,3> o (1,1,64,64):(4096,4096,64,1)>
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)> to !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
    %1 = sched.commit
    %m_3 = sched.fill %m with 0.000000e+00 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %m_3, %1 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  } -> !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  %m_4 = sched.forloop 1 carrying %m_2 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> {
  ^bb0(%m_5: !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>):
    sched.wait pending 0 for %0
    sched.barrier
    %m_6 = sched.mma %sx, %sv to %m_5 ldmatrix [true, true] : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>, !sched.shared<1x1x64x64xf16, S<3,3,3> o (1,1,64,64):(4096,4096,64,1)> to !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %m_6 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %m_4 to %m_1 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
    sched.barrier
    sched.copy %m_1 to %q0_tile by <64, vector 8, order [3, 2, 1, 0]> : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)> to !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)>
  }
} {sched.schedule_certificate = {barriers = 2 : i64, barrier_bound = 2 : i64, peak = 10240 : i64, peak_bound = 10240 : i64, optimal = true}, sched.memory_certificate = {bound = 10240 : i64, method = "first fit", optimal = true, peak = 10240 : i64}}
sched.kernel @f_custom1 inputs 2 constant [1] grid [4, 4, 1] block [64, 1, 1] smem 2688 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)>, %dw: !sched.global<1x4x64x64xf16, (1,4,64,64):(16384,4096,64,1)>, %p0: !sched.global<4x4x2x64xf32, (4,4,2,64):(512,128,64,1)>):
  %sx = sched.alloc offset 2048 : !sched.shared<1x1x2x16xf16, (1,1,2,16):(32,32,16,1)>
  %dx_tile = sched.local_tile %dx map [1, 3, -1] : !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)> -> !sched.global<1x1x2x16xf16, (1,1,2,16):(512,128,64,1)>
  %sw = sched.alloc offset 0 : !sched.shared<1x1x16x64xf16, S<3,3,3> o (1,1,16,64):(1024,1024,64,1)>
  %dw_tile = sched.local_tile %dw map [1, 2, -1] : !sched.global<1x4x64x64xf16, (1,4,64,64):(16384,4096,64,1)> -> !sched.global<1x1x16x64xf16, (1,1,16,64):(16384,4096,64,1)>
  %m = sched.empty : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %m_1 = sched.alloc offset 2176 : !sched.shared<1x1x2x64xf32, S<1,3,3> o (1,1,2,64):(128,128,64,1)>
  %p0_tile = sched.local_tile %p0 map [1, 0, -1] : !sched.global<4x4x2x64xf32, (4,4,2,64):(512,128,64,1)> -> !sched.global<1x1x2x64xf32, (1,1,2,64):(512,128,64,1)>
  %m_2, %0 = sched.prologue {
    sched.copy async %dw_tile to %sw by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x16x64xf16, (1,1,16,64):(16384,4096,64,1)> to !sched.shared<1x1x16x64xf16, S<3,3,3> o (1,1,16,64):(1024,1024,64,1)>
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x2x16xf16, (1,1,2,16):(512,128,64,1)> to !sched.shared<1x1x2x16xf16, (1,1,2,16):(32,32,16,1)>
    %1 = sched.commit
    %m_3 = sched.fill %m with 0.000000e+00 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %m_3, %1 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  } -> !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token
  %m_4 = sched.forloop 1 carrying %m_2 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> {
  ^bb0(%m_5: !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>):
    sched.wait pending 0 for %0
    sched.barrier
    %m_6 = sched.mma %sx, %sw to %m_5 ldmatrix [true, true] : !sched.shared<1x1x2x16xf16, (1,1,2,16):(32,32,16,1)>, !sched.shared<1x1x16x64xf16, S<3,3,3> o (1,1,16,64):(1024,1024,64,1)> to !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %m_6 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %m_4 to %m_1 : !sched.tile<1x1x2x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<1x1x2x64xf32, S<1,3,3> o (1,1,2,64):(128,128,64,1)>
    sched.barrier
    sched.copy %m_1 to %p0_tile by <64, vector 4, order [3, 2, 1, 0]> : !sched.shared<1x1x2x64xf32, S<1,3,3> o (1,1,2,64):(128,128,64,1)> to !sched.global<1x1x2x64xf32, (1,1,2,64):(512,128,64,1)>
  }
} {sched.schedule_certificate = {barriers = 2 : i64, barrier_bound = 2 : i64, peak = 2688 : i64, peak_bound = 2688 : i64, optimal = true}, sched.memory_certificate = {bound = 2688 : i64, method = "first fit", optimal = true, peak = 2688 : i64}}
sched.kernel @f_custom2 inputs 1 grid [4, 1, 1] block [64, 1, 1] smem 2560 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dp: !sched.global<4x4x2x64xf32, (4,4,2,64):(512,128,64,1)>, %r0: !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)>):
  %sp = sched.alloc offset 0 : !sched.shared<4x1x2x64xf32, (4,1,2,64):(128,128,64,1)>
  %dp_tile = sched.local_tile %dp map [1, -1, -1] : !sched.global<4x4x2x64xf32, (4,4,2,64):(512,128,64,1)> -> !sched.global<4x1x2x64xf32, (4,1,2,64):(512,128,64,1)>
  %s = sched.alloc offset 2048 : !sched.shared<1x1x2x64xf32, (1,1,2,64):(128,128,64,1)>
  %r0_tile = sched.local_tile %r0 map [1, -1, -1] : !sched.global<1x4x2x64xf16, (1,4,2,64):(512,128,64,1)> -> !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)>
  %0 = sched.prologue {
    sched.grid_wait
    sched.copy async %dp_tile to %sp by <64, vector 4, order [3, 2, 1, 0]> iteration 0 : !sched.global<4x1x2x64xf32, (4,1,2,64):(512,128,64,1)> to !sched.shared<4x1x2x64xf32, (4,1,2,64):(128,128,64,1)>
    %1 = sched.commit
    sched.fill %s with 0.000000e+00 : !sched.shared<1x1x2x64xf32, (1,1,2,64):(128,128,64,1)>
    sched.yield %1 : !sched.token
  } -> !sched.token
  sched.forloop 1 {
    sched.wait pending 0 for %0
    sched.barrier
    sched.reduce %sp to %s then [accum] dim 0 contiguous lanes 1 by <64, vector 1, order [3, 2, 1, 0]> : !sched.shared<4x1x2x64xf32, (4,1,2,64):(128,128,64,1)> to !sched.shared<1x1x2x64xf32, (1,1,2,64):(128,128,64,1)>
  }
  sched.grid_launch
  sched.epilogue {
    sched.barrier
    sched.copy %s to %r0_tile by <64, vector 4, order [3, 2, 1, 0]> : !sched.shared<1x1x2x64xf32, (1,1,2,64):(128,128,64,1)> to !sched.global<1x1x2x64xf16, (1,1,2,64):(512,128,64,1)>
  }
} {sched.schedule_certificate = {barriers = 2 : i64, barrier_bound = 2 : i64, peak = 2560 : i64, peak_bound = 2560 : i64, optimal = true}, sched.memory_certificate = {bound = 2560 : i64, method = "first fit", optimal = true, peak = 2560 : i64}}
func.func @f(%x: tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>, %v: tensor<1x4x64x64xf16, #cute.layout<(1,4,64,64):(16384,4096,64,1)>> {mugraph.constant}, %w: tensor<1x4x64x64xf16, #cute.layout<(1,4,64,64):(16384,4096,64,1)>> {mugraph.constant}) -> (tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>, tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>) attributes {mugraph.layout_certificate = {bound = 170580 : i64, cost = 170580 : i64, status = "optimal"}, kn.workspace_bytes = 8192 : i64, kn.workspace_certificate = {bound = 8192 : i64, method = "first fit", optimal = true, peak = 8192 : i64}} {
  %q0 = sched.launch @f_custom0 %x, %v resident 1 workspace [-1] : (tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>, tensor<1x4x64x64xf16, #cute.layout<(1,4,64,64):(16384,4096,64,1)>>) -> tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>
  %p0 = sched.launch @f_custom1 %x, %w workspace [0] {kn.joined} : (tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>, tensor<1x4x64x64xf16, #cute.layout<(1,4,64,64):(16384,4096,64,1)>>) -> tensor<4x4x2x64xf32, #cute.layout<(4,4,2,64):(512,128,64,1)>>
  %r0 = sched.launch @f_custom2 %p0 workspace [-1] : (tensor<4x4x2x64xf32, #cute.layout<(4,4,2,64):(512,128,64,1)>>) -> tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>
  func.return %q0, %r0 : tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>, tensor<1x4x2x64xf16, #cute.layout<(1,4,2,64):(512,128,64,1)>>
}
