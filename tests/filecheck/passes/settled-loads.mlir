// A producer loads the first tile of an argument of the function before it waits for the kernel in front, which waits for
// those before it and then lets this one start; what that kernel computes is loaded behind the wait.

// RUN: mg-opt --settled-loads --check-hazards %s | filecheck %s
// RUN: mg-opt --settled-loads=arch=sm_80 %s | filecheck %s --check-prefix WITHOUT

// CHECK:      sched.kernel @f_custom0 inputs 1 grid
// CHECK:      sched.kernel @f_custom1 inputs 2 constant [1] grid
// CHECK:      sched.role "producer" warps 1 elected {
// CHECK-NEXT:   sched.prologue {
// CHECK-NEXT:     sched.bulk_copy %dw_tile to %sw on %ring iteration 0
// CHECK-NEXT:     sched.grid_wait
// CHECK-NEXT:     sched.bulk_copy %ds_tile to %ss on %ring iteration 0
// CHECK-NEXT:     sched.publish %ring iteration 0
// CHECK-NEXT:     sched.bulk_copy %ds_tile to %ss on %ring iteration 1
// CHECK-NEXT:     sched.bulk_copy %dw_tile to %sw on %ring iteration 1
// CHECK-NEXT:     sched.publish %ring iteration 1

// WITHOUT-NOT: constant [1]

// A kernel in front that loads only what is constant, and waits behind its loop, lets this one start where it did.
// RUN: sed -e '/^sched.kernel @f_custom0/,/^}/{/    sched.grid_wait/d;s/  sched.grid_launch/  sched.grid_wait\n&/;s/inputs 1/& constant [0]/}' -e '/^func/s/>>,/>> {mugraph.constant},/' %s | mg-opt --settled-loads --check-hazards | filecheck %s --check-prefix LATE
// LATE:      sched.kernel @f_custom0 inputs 1 constant [0]
// LATE:      sched.forloop 1
// LATE:      sched.grid_wait
// LATE-NEXT: sched.grid_launch
// LATE:      sched.kernel @f_custom1 inputs 2 grid
sched.kernel @f_custom0 inputs 1 grid [8, 1, 1] block [32, 1, 1] smem 0 resident 1 forloop 1 plan <tiles = written, loads = cp_async, pdl = late> {
^bb0(%dx: !sched.global<64x128xf16, (64,128):(128,1)>, %s: !sched.global<64x128xf16, (64,128):(128,1)>):
  %e = sched.empty : !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>>
  %sx = sched.empty : !sched.tile<8x128xf16, #sched.linear<32, vector 8, order [1, 0]>>
  %dx_tile = sched.local_tile %dx map [0, -1, -1] : !sched.global<64x128xf16, (64,128):(128,1)> -> !sched.global<8x128xf16, (8,128):(128,1)>
  %s_tile = sched.local_tile %s map [0, -1, -1] : !sched.global<64x128xf16, (64,128):(128,1)> -> !sched.global<8x128xf16, (8,128):(128,1)>
  %sx_1 = sched.prologue {
    sched.grid_wait
    %sx_2 = sched.copy %dx_tile to %sx by <32, vector 8, order [1, 0]> iteration 0 : !sched.global<8x128xf16, (8,128):(128,1)> to !sched.tile<8x128xf16, #sched.linear<32, vector 8, order [1, 0]>>
    sched.yield %sx_2 : !sched.tile<8x128xf16, #sched.linear<32, vector 8, order [1, 0]>>
  } -> !sched.tile<8x128xf16, #sched.linear<32, vector 8, order [1, 0]>>
  %e_1 = sched.forloop 1 carrying %e : !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>> {
  ^bb0(%e_2: !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>>):
    %e_3 = sched.map exp %sx_1 to %e_2 : !sched.tile<8x128xf16, #sched.linear<32, vector 8, order [1, 0]>> to !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>>
    sched.yield %e_3 : !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>>
  }
  sched.grid_launch
  sched.epilogue {
    sched.copy %e_1 to %s_tile by <32, vector 8, order [1, 0]> : !sched.tile<8x128xf32, #sched.linear<32, vector 8, order [1, 0]>> to !sched.global<8x128xf16, (8,128):(128,1)>
  }
}
sched.kernel @f_custom1 inputs 2 grid [1, 1, 1] block [160, 1, 1] smem 32896 resident 1 forloop 2 plan <tiles = written, loads = tma, pdl = end> {
^bb0(%ds: !sched.global<64x128xf16, (64,128):(128,1)>, %dw: !sched.global<128x64xf16, (128,64):(64,1)>, %y: !sched.global<64x64xf16, (64,64):(64,1)>):
  %ss = sched.alloc stages 2 offset 0 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %ds_tile = sched.local_tile %ds map [-1, -1, -1] fordim 1 : !sched.global<64x128xf16, (64,128):(128,1)> -> !sched.global<64x64xf16, (64,64):(128,1)>
  %sw = sched.alloc stages 2 offset 16384 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %dw_tile = sched.local_tile %dw map [-1, -1, -1] fordim 0 : !sched.global<128x64xf16, (128,64):(64,1)> -> !sched.global<64x64xf16, (64,64):(64,1)>
  %y_tile = sched.local_tile %y map [-1, -1, -1] : !sched.global<64x64xf16, (64,64):(64,1)> -> !sched.global<64x64xf16, (64,64):(64,1)>
  %ring = sched.channel %ss, %sw offset 32768 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %a = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %a_1 = sched.prologue {
      %a_2 = sched.fill %a with 0.000000e+00 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %a_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %a_3 = sched.forloop 2 carrying %a_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%a_4: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      sched.consume %ring
      %a_5 = sched.warpgroup_mma async %ss, %sw to %a_4 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.warpgroup_wait pending 1
      sched.release %ring ahead -1
      sched.yield %a_5 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
    sched.epilogue {
      %a_6 = sched.warpgroup_wait pending 0 for %a_3 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.grid_wait
      sched.store %a_6 to %y_tile : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.global<64x64xf16, (64,64):(64,1)>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.grid_wait
      sched.bulk_copy %ds_tile to %ss on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(128,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.bulk_copy %dw_tile to %sw on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.publish %ring iteration 0
      sched.bulk_copy %ds_tile to %ss on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(128,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.bulk_copy %dw_tile to %sw on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.publish %ring iteration 1
    }
  }
}
func.func @f(%x: tensor<64x128xf16, #cute.layout<(64,128):(128,1)>>, %w: tensor<128x64xf16, #cute.layout<(128,64):(64,1)>>) -> tensor<64x64xf16, #cute.layout<(64,64):(64,1)>> attributes {kn.workspace_bytes = 16384 : i64} {
  %s = sched.launch @f_custom0 %x workspace [0] : (tensor<64x128xf16, #cute.layout<(64,128):(128,1)>>) -> tensor<64x128xf16, #cute.layout<(64,128):(128,1)>>
  %y = sched.launch @f_custom1 %s, %w workspace [-1] : (tensor<64x128xf16, #cute.layout<(64,128):(128,1)>>, tensor<128x64xf16, #cute.layout<(128,64):(64,1)>>) -> tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>
  func.return %y : tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>
}
