// A block of each cluster combines the parts that all blocks of the cluster compute, without a launch of its own.

// RUN: mg-opt --combine-in-clusters %s | filecheck %s

// The two parts of a tile lie side by side, and so do tiles.
// CHECK:      sched.kernel @f_custom0
// CHECK:      sched.local_tile %p map [1, 0, -1] : !sched.global<2x4x2x16xf32, (2,4,2,16):(32,64,16,1)>
// CHECK:      sched.kernel @f_custom1
// CHECK:      sched.local_tile %dp map [1, -1, -1] : !sched.global<2x4x2x16xf32, (2,4,2,16):(32,64,16,1)>
// What lies in shared memory is not copied asynchronously.
// CHECK:      sched.copy %dp_tile
// CHECK:      func.func @f
// CHECK:      %p = sched.launch @f_custom0
// CHECK-NEXT: %y = sched.launch @f_custom1 %p cluster 2 {{.*}} {kn.joined}
sched.kernel @f_custom0 inputs 2 constant [1] grid [4, 2, 1] block [64, 1, 1] smem 6272 resident 1 forloop 2 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<1x4x2x256xf16, (1,4,2,256):(2048,512,256,1)>, %dw: !sched.global<1x4x256x16xf16, (1,4,256,16):(16384,4096,16,1)>, %p: !sched.global<2x4x2x16xf32, (2,4,2,16):(128,32,16,1)>):
  %sx = sched.alloc stages 2 offset 4096 : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
  %dx_tile = sched.local_tile %dx map [1, 3, -1] fordim 3 : !sched.global<1x4x2x256xf16, (1,4,2,256):(2048,512,256,1)> -> !sched.global<1x1x2x64xf16, (1,1,2,64):(2048,512,256,1)>
  %sw = sched.alloc stages 2 offset 0 : !sched.shared<1x1x64x16xf16, S<1,3,3> o (1,1,64,16):(1024,1024,16,1)>
  %dw_tile = sched.local_tile %dw map [1, 2, -1] fordim 2 : !sched.global<1x4x256x16xf16, (1,4,256,16):(16384,4096,16,1)> -> !sched.global<1x1x64x16xf16, (1,1,64,16):(16384,4096,16,1)>
  %s = sched.empty : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %s_1 = sched.alloc offset 6144 : !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)>
  %p_tile = sched.local_tile %p map [1, 0, -1] : !sched.global<2x4x2x16xf32, (2,4,2,16):(128,32,16,1)> -> !sched.global<1x1x2x16xf32, (1,1,2,16):(128,32,16,1)>
  %s_2, %0, %1 = sched.prologue {
    sched.copy async %dw_tile to %sw by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x64x16xf16, (1,1,64,16):(16384,4096,16,1)> to !sched.shared<1x1x64x16xf16, S<1,3,3> o (1,1,64,16):(1024,1024,16,1)>
    sched.copy async %dw_tile to %sw by <64, vector 8, order [3, 2, 1, 0]> iteration 1 : !sched.global<1x1x64x16xf16, (1,1,64,16):(16384,4096,16,1)> to !sched.shared<1x1x64x16xf16, S<1,3,3> o (1,1,64,16):(1024,1024,16,1)>
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <64, vector 8, order [3, 2, 1, 0]> iteration 0 : !sched.global<1x1x2x64xf16, (1,1,2,64):(2048,512,256,1)> to !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
    %2 = sched.commit
    sched.copy async %dx_tile to %sx by <64, vector 8, order [3, 2, 1, 0]> iteration 1 : !sched.global<1x1x2x64xf16, (1,1,2,64):(2048,512,256,1)> to !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>
    %3 = sched.commit
    %s_3 = sched.fill %s with 0.000000e+00 : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %s_3, %2, %3 : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  } -> !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  %s_4, %4, %5 = sched.forloop 2 carrying %s_2, %0, %1 : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token {
  ^bb0(%s_5: !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, %6: !sched.token, %7: !sched.token):
    sched.wait pending 1 for %6
    sched.barrier
    %8 = sched.commit
    %s_6 = sched.mma %sx, %sw to %s_5 ldmatrix [true, true] : !sched.shared<1x1x2x64xf16, S<3,3,3> o (1,1,2,64):(128,128,64,1)>, !sched.shared<1x1x64x16xf16, S<1,3,3> o (1,1,64,16):(1024,1024,16,1)> to !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %s_6, %7, %8 : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %s_4 to %s_1 : !sched.tile<1x1x2x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)>
    sched.barrier
    sched.copy %s_1 to %p_tile by <64, vector 4, order [3, 2, 1, 0]> : !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)> to !sched.global<1x1x2x16xf32, (1,1,2,16):(128,32,16,1)>
  }
}
sched.kernel @f_custom1 inputs 1 grid [4, 1, 1] block [64, 1, 1] smem 384 resident 1 forloop 1 plan <tiles = written, loads = cp_async> {
^bb0(%dp: !sched.global<2x4x2x16xf32, (2,4,2,16):(128,32,16,1)>, %y: !sched.global<1x4x2x16xf16, (1,4,2,16):(128,32,16,1)>):
  %sp = sched.alloc offset 0 : !sched.shared<2x1x2x16xf32, S<1,0,5> o (2,1,2,16):(32,32,1,2)>
  %dp_tile = sched.local_tile %dp map [1, -1, -1] : !sched.global<2x4x2x16xf32, (2,4,2,16):(128,32,16,1)> -> !sched.global<2x1x2x16xf32, (2,1,2,16):(128,32,16,1)>
  %s = sched.alloc offset 256 : !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)>
  %y_tile = sched.local_tile %y map [1, -1, -1] : !sched.global<1x4x2x16xf16, (1,4,2,16):(128,32,16,1)> -> !sched.global<1x1x2x16xf16, (1,1,2,16):(128,32,16,1)>
  %0 = sched.prologue {
    sched.grid_wait
    sched.copy async %dp_tile to %sp by <64, vector 1, order [3, 2, 1, 0]> iteration 0 : !sched.global<2x1x2x16xf32, (2,1,2,16):(128,32,16,1)> to !sched.shared<2x1x2x16xf32, S<1,0,5> o (2,1,2,16):(32,32,1,2)>
    %1 = sched.commit
    sched.fill %s with 0.000000e+00 : !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)>
    sched.yield %1 : !sched.token
  } -> !sched.token
  sched.forloop 1 {
    sched.wait pending 0 for %0
    sched.barrier
    sched.reduce %sp to %s then [accum] dim 0 contiguous lanes 2 by <64, vector 1, order [3, 2, 1, 0]> : !sched.shared<2x1x2x16xf32, S<1,0,5> o (2,1,2,16):(32,32,1,2)> to !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)>
  }
  sched.grid_launch
  sched.epilogue {
    sched.barrier
    sched.copy %s to %y_tile by <64, vector 4, order [3, 2, 1, 0]> : !sched.shared<1x1x2x16xf32, (1,1,2,16):(32,32,16,1)> to !sched.global<1x1x2x16xf16, (1,1,2,16):(128,32,16,1)>
  }
}
func.func @f(%x: tensor<1x4x2x256xf16, #cute.layout<(1,4,2,256):(2048,512,256,1)>>, %w: tensor<1x4x256x16xf16, #cute.layout<(1,4,256,16):(16384,4096,16,1)>> {mugraph.constant}) -> tensor<1x4x2x16xf16, #cute.layout<(1,4,2,16):(128,32,16,1)>> attributes {kn.workspace_bytes = 1024 : i64} {
  %p = sched.launch @f_custom0 %x, %w workspace [0] : (tensor<1x4x2x256xf16, #cute.layout<(1,4,2,256):(2048,512,256,1)>>, tensor<1x4x256x16xf16, #cute.layout<(1,4,256,16):(16384,4096,16,1)>>) -> tensor<2x4x2x16xf32, #cute.layout<(2,4,2,16):(128,32,16,1)>>
  %y = sched.launch @f_custom1 %p workspace [-1] : (tensor<2x4x2x16xf32, #cute.layout<(2,4,2,16):(128,32,16,1)>>) -> tensor<1x4x2x16xf16, #cute.layout<(1,4,2,16):(128,32,16,1)>>
  func.return %y : tensor<1x4x2x16xf16, #cute.layout<(1,4,2,16):(128,32,16,1)>>
}
