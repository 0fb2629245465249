// Numbers that are computed in the registers that they were loaded to, as a row's scale and that of all rows, are made
// behind the product, in these registers.
// RUN: mg-opt --unroll-products --check-hazards %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-run --check %t.mlir | filecheck %s --check-prefix VALUES

// VALUES: check: output 0, 128x64 bfloat16: relative error {{.*}} against float64, within

// CHECK: sched.forloop 64 step 4 carrying
// CHECK: sched.warpgroup_mma async fresh
// CHECK: %[[TS:ts[_0-9]*]] = sched.load %ds_tile to
// CHECK: sched.warpgroup_mma async fresh {{.*}} ahead 1
// CHECK: sched.map mul %[[TS]], %{{ts2[_0-9]*}} to %[[TS]] :
sched.kernel @f_custom0 inputs 4 grid [1, 1, 1] block [384, 1, 1] smem 41088 resident 1 forloop 64 plan <tiles = written, loads = tma, stages = [4]> {
^bb0(%dx: !sched.global<128x2048xf8E4M3FN, (128,2048):(2048,1)>, %dw: !sched.global<2048x64xf8E4M3FN, (2048,64):(1,2048)>, %ds: !sched.global<128x64xf32, (128,64):(64,1)>, %ds2: !sched.global<1x64xf32, (1,64):(64,1)>, %o: !sched.global<128x64xbf16, (128,64):(1,128)>):
  %tx = sched.alloc stages 4 offset 0 : !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
  %dx_tile = sched.local_tile %dx map [0, -1, -1] fordim 1 : !sched.global<128x2048xf8E4M3FN, (128,2048):(2048,1)> -> !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)>
  %tw = sched.alloc stages 4 offset 16384 : !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
  %dw_tile = sched.local_tile %dw map [-1, 1, -1] fordim 0 : !sched.global<2048x64xf8E4M3FN, (2048,64):(1,2048)> -> !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)>
  %ds_tile = sched.local_tile %ds map [0, -1, -1] fordim 1 : !sched.global<128x64xf32, (128,64):(64,1)> -> !sched.global<128x1xf32, (128,1):(64,1)>
  %ds2_tile = sched.local_tile %ds2 map [-1, -1, -1] fordim 1 : !sched.global<1x64xf32, (1,64):(64,1)> -> !sched.global<1x1xf32, (1,1):(64,1)>
  %c = sched.alloc offset 24576 : !sched.shared<128x64xbf16, S<3,3,4> o (128,64):(1,128)>
  %o_tile = sched.local_tile %o map [0, 1, -1] : !sched.global<128x64xbf16, (128,64):(1,128)> -> !sched.global<128x64xbf16, (128,64):(1,128)>
  %ring = sched.channel %tx, %tw offset 40960 : !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>, !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
  sched.barrier
  sched.role "consumers" warps 8 registers 232 {
    %a = sched.empty : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
    %a_1 = sched.prologue {
      %a_2 = sched.fill %a with 0.000000e+00 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
      sched.yield %a_2 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
    } -> !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
    sched.grid_wait
    %a_3 = sched.forloop 64 carrying %a_1 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>> {
    ^bb0(%a_4: !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>):
      %ts2 = sched.empty : !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>
      %ts2_1 = sched.load %ds2_tile to %ts2 : !sched.global<1x1xf32, (1,1):(64,1)> to !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>
      %ts = sched.empty : !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>
      %ts_1 = sched.load %ds_tile to %ts : !sched.global<128x1xf32, (128,1):(64,1)> to !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>
      %q_1 = sched.map mul %ts_1, %ts2_1 to %ts_1 : !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>, !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>> to !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>>
      %m = sched.empty : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
      sched.consume %ring
      %m_1 = sched.warpgroup_mma fresh %tx, %tw to %m : !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>, !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
      sched.release %ring
      %a_5 = sched.map mul %m_1, %q_1 to %a_4 then [accum] : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>, !sched.tile<128x1xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
      sched.yield %a_5 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
    }
    sched.epilogue {
      %a_6 = sched.map identity %a_3 to %a_3 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>>
      sched.store %a_6 to %c : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x32_F32E4M3E4M3_SS_TN, (2,1,1)>> to !sched.shared<128x64xbf16, S<3,3,4> o (128,64):(1,128)>
      sched.barrier
      sched.copy %c to %o_tile by <256, vector 8, order [0, 1]> : !sched.shared<128x64xbf16, S<3,3,4> o (128,64):(1,128)> to !sched.global<128x64xbf16, (128,64):(1,128)>
    }
  }
  sched.role "producer" warps 4 registers 40 elected {
    sched.prologue {
      sched.grid_wait
      sched.bulk_copy %dx_tile to %tx on %ring iteration 0 : !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)> to !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 0 : !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)> to !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
      sched.publish %ring iteration 0
      sched.bulk_copy %dx_tile to %tx on %ring iteration 1 : !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)> to !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 1 : !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)> to !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
      sched.publish %ring iteration 1
      sched.bulk_copy %dx_tile to %tx on %ring iteration 2 : !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)> to !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 2 : !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)> to !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
      sched.publish %ring iteration 2
      sched.bulk_copy %dx_tile to %tx on %ring iteration 3 : !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)> to !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 3 : !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)> to !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
      sched.publish %ring iteration 3
    }
    sched.forloop 64 {
      sched.acquire %ring ahead 4
      sched.bulk_copy %dx_tile to %tx on %ring ahead 4 : !sched.global<128x32xf8E4M3FN, (128,32):(2048,1)> to !sched.shared<128x32xf8E4M3FN, S<1,4,3> o (128,32):(32,1)>
      sched.bulk_copy %dw_tile to %tw on %ring ahead 4 : !sched.global<32x64xf8E4M3FN, (32,64):(1,2048)> to !sched.shared<32x64xf8E4M3FN, S<1,4,3> o (32,64):(1,32)>
      sched.publish %ring ahead 4
    }
    sched.grid_launch
  }
}
func.func @f(%x: tensor<128x2048xf8E4M3FN, #cute.layout<(128,2048):(2048,1)>>, %w: tensor<2048x64xf8E4M3FN, #cute.layout<(2048,64):(1,2048)>>, %s: tensor<128x64xf32, #cute.layout<(128,64):(64,1)>>, %s2: tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>) -> tensor<128x64xbf16, #cute.layout<(128,64):(1,128)>> {
  %o = sched.launch @f_custom0 %x, %w, %s, %s2 workspace [-1] : (tensor<128x2048xf8E4M3FN, #cute.layout<(128,2048):(2048,1)>>, tensor<2048x64xf8E4M3FN, #cute.layout<(2048,64):(1,2048)>>, tensor<128x64xf32, #cute.layout<(128,64):(64,1)>>, tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>) -> tensor<128x64xbf16, #cute.layout<(128,64):(1,128)>>
  func.return %o : tensor<128x64xbf16, #cute.layout<(128,64):(1,128)>>
}
