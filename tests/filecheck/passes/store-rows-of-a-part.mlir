// A kernel of whose result a table gets a part stores no rows there: the others have no place in it.

// RUN: mg-opt --store-rows %s | filecheck %s

// CHECK-NOT: placed
// CHECK-NOT: kn.stored
sched.kernel @f_custom0 inputs 2 grid [8, 1, 1] block [64, 1, 1] smem 4480 resident 1 forloop 2 plan <tiles = written, loads = cp_async> {
^bb0(%dx: !sched.global<1x64xf16, (1,64):(64,1)>, %dw: !sched.global<64x256xf16, (64,256):(256,1)>, %a: !sched.global<1x256xf16, (1,256):(256,1)>):
  %sx = sched.alloc stages 2 offset 4096 : !sched.shared<1x32xf16, (1,32):(32,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<1x64xf16, (1,64):(64,1)> -> !sched.global<1x32xf16, (1,32):(64,1)>
  %sw = sched.alloc stages 2 offset 0 : !sched.shared<32x32xf16, S<2,3,3> o (32,32):(32,1)>
  %dw_tile = sched.local_tile %dw map [1, -1, -1] fordim 0 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<32x32xf16, (32,32):(256,1)>
  %s = sched.empty : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %s_1 = sched.alloc offset 4352 : !sched.shared<1x32xf16, (1,32):(32,1)>
  %a_tile = sched.local_tile %a map [1, -1, -1] : !sched.global<1x256xf16, (1,256):(256,1)> -> !sched.global<1x32xf16, (1,32):(256,1)>
  %s_2, %0, %1 = sched.prologue {
    sched.grid_wait
    sched.copy async %dx_tile to %sx by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<1x32xf16, (1,32):(64,1)> to !sched.shared<1x32xf16, (1,32):(32,1)>
    sched.copy async %dw_tile to %sw by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<32x32xf16, (32,32):(256,1)> to !sched.shared<32x32xf16, S<2,3,3> o (32,32):(32,1)>
    %2 = sched.commit
    sched.copy async %dx_tile to %sx by <64, vector 8, order [1, 0]> iteration 1 : !sched.global<1x32xf16, (1,32):(64,1)> to !sched.shared<1x32xf16, (1,32):(32,1)>
    sched.copy async %dw_tile to %sw by <64, vector 8, order [1, 0]> iteration 1 : !sched.global<32x32xf16, (32,32):(256,1)> to !sched.shared<32x32xf16, S<2,3,3> o (32,32):(32,1)>
    %3 = sched.commit
    %s_3 = sched.fill %s with 0.000000e+00 : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %s_3, %2, %3 : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  } -> !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  %s_4, %4, %5 = sched.forloop 2 carrying %s_2, %0, %1 : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token {
  ^bb0(%s_5: !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, %6: !sched.token, %7: !sched.token):
    sched.wait pending 1 for %6
    sched.barrier
    %8 = sched.commit
    %s_6 = sched.mma %sx, %sw to %s_5 ldmatrix [true, true] : !sched.shared<1x32xf16, (1,32):(32,1)>, !sched.shared<32x32xf16, S<2,3,3> o (32,32):(32,1)> to !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
    sched.yield %s_6, %7, %8 : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.token, !sched.token
  }
  sched.grid_launch
  sched.epilogue {
    sched.store %s_4 to %s_1 : !sched.tile<1x32xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>> to !sched.shared<1x32xf16, (1,32):(32,1)>
    sched.barrier
    sched.copy %s_1 to %a_tile by <64, vector 8, order [1, 0]> : !sched.shared<1x32xf16, (1,32):(32,1)> to !sched.global<1x32xf16, (1,32):(256,1)>
  }
}
func.func @f(%x: tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, %w: tensor<64x256xf16, #cute.layout<(64,256):(256,1)>>, %old: tensor<2x24x64xf16, #cute.layout<(2,24,64):(1536,64,1)>>, %at: tensor<1xi32, #cute.layout<(1):(1)>>) -> tensor<2x24x64xf16, #cute.layout<(2,24,64):(1536,64,1)>> attributes {kn.workspace_bytes = 512 : i64} {
  %a = sched.launch @f_custom0 %x, %w workspace [0] : (tensor<1x64xf16, #cute.layout<(1,64):(64,1)>>, tensor<64x256xf16, #cute.layout<(64,256):(256,1)>>) -> tensor<1x256xf16, #cute.layout<(1,256):(256,1)>>
  %v = kn.view %a from 128 : tensor<1x256xf16, #cute.layout<(1,256):(256,1)>> -> tensor<2x1x64xf16, #cute.layout<(2,1,64):(64,64,1)>>
  %t = kn.scatter %v into %old rows %at dim 1 workspace [-1] {kn.overlaps} : (tensor<2x1x64xf16, #cute.layout<(2,1,64):(64,64,1)>>, tensor<2x24x64xf16, #cute.layout<(2,24,64):(1536,64,1)>>, tensor<1xi32, #cute.layout<(1):(1)>>) -> tensor<2x24x64xf16, #cute.layout<(2,24,64):(1536,64,1)>>
  func.return %t : tensor<2x24x64xf16, #cute.layout<(2,24,64):(1536,64,1)>>
}
