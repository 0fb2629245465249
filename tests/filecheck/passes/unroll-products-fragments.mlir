// A product of what threads compute in registers stays behind that, one an iteration.
// RUN: mg-opt --unroll-products %s | filecheck %s

// CHECK: sched.forloop 64 carrying
// CHECK: %[[H:h[_0-9]*]] = sched.map square
// CHECK-NEXT: sched.warpgroup_mma fresh %[[H]], %tw to
sched.kernel @f_custom0 inputs 2 grid [1, 1, 1] block [384, 1, 1] smem 24704 resident 1 forloop 64 plan <tiles = written, loads = tma, stages = [4]> {
^bb0(%dx: !sched.global<128x1024xbf16, (128,1024):(1024,1)>, %dw: !sched.global<1024x64xbf16, (1024,64):(1,1024)>, %o: !sched.global<128x64xbf16, (128,64):(64,1)>):
  %tx = sched.alloc stages 4 offset 0 : !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<128x1024xbf16, (128,1024):(1024,1)> -> !sched.global<128x16xbf16, (128,16):(1024,1)>
  %tw = sched.alloc stages 4 offset 16384 : !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
  %dw_tile = sched.local_tile %dw map [-1, -1, -1] fordim 0 : !sched.global<1024x64xbf16, (1024,64):(1,1024)> -> !sched.global<16x64xbf16, (16,64):(1,1024)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<128x64xbf16, (128,64):(64,1)> -> !sched.global<128x64xbf16, (128,64):(64,1)>
  %ring = sched.channel %tx, %tw offset 24576 : !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>, !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
  sched.barrier
  sched.role "consumers" warps 8 registers 232 {
    %a = sched.empty : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
    %a_1 = sched.prologue {
      %a_2 = sched.fill %a with 0.000000e+00 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
      sched.yield %a_2 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
    } -> !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
    %a_3 = sched.forloop 64 carrying %a_1 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>> {
    ^bb0(%a_4: !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>):
      %a_5 = sched.empty : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
      sched.consume %ring
      %l = sched.empty : !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>>
      %l_1 = sched.load %tx to %l : !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)> to !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>>
      %h = sched.empty : !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>>
      %h_1 = sched.map square %l_1 to %h : !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>> to !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>>
      %a_6 = sched.warpgroup_mma fresh %h_1, %tw to %a_5 : !sched.tile<128x16xbf16, #cute.tiled_mma<SM90_64x16x16_F32BF16BF16_RS, (2,1,1)>>, !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
      sched.release %ring
      %a_7 = sched.map identity %a_6 to %a_4 then [square, accum] : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
      sched.yield %a_7 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
    }
    sched.epilogue {
      %a_8 = sched.map identity %a_3 to %a_3 : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>> to !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>>
      sched.grid_wait
      sched.store %a_8 to %o_tile : !sched.tile<128x64xf32, #cute.tiled_mma<SM90_64x64x16_F32BF16BF16_RS, (2,1,1)>> to !sched.global<128x64xbf16, (128,64):(64,1)>
    }
  }
  sched.role "producer" warps 4 registers 40 elected {
    sched.prologue {
      sched.grid_wait
      sched.bulk_copy %dx_tile to %tx on %ring iteration 0 : !sched.global<128x16xbf16, (128,16):(1024,1)> to !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 0 : !sched.global<16x64xbf16, (16,64):(1,1024)> to !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
      sched.publish %ring iteration 0
      sched.bulk_copy %dx_tile to %tx on %ring iteration 1 : !sched.global<128x16xbf16, (128,16):(1024,1)> to !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 1 : !sched.global<16x64xbf16, (16,64):(1,1024)> to !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
      sched.publish %ring iteration 1
      sched.bulk_copy %dx_tile to %tx on %ring iteration 2 : !sched.global<128x16xbf16, (128,16):(1024,1)> to !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 2 : !sched.global<16x64xbf16, (16,64):(1,1024)> to !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
      sched.publish %ring iteration 2
      sched.bulk_copy %dx_tile to %tx on %ring iteration 3 : !sched.global<128x16xbf16, (128,16):(1024,1)> to !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
      sched.bulk_copy %dw_tile to %tw on %ring iteration 3 : !sched.global<16x64xbf16, (16,64):(1,1024)> to !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
      sched.publish %ring iteration 3
    }
    sched.forloop 64 {
      sched.acquire %ring ahead 4
      sched.bulk_copy %dx_tile to %tx on %ring ahead 4 : !sched.global<128x16xbf16, (128,16):(1024,1)> to !sched.shared<128x16xbf16, S<1,3,3> o (128,16):(16,1)>
      sched.bulk_copy %dw_tile to %tw on %ring ahead 4 : !sched.global<16x64xbf16, (16,64):(1,1024)> to !sched.shared<16x64xbf16, S<1,3,3> o (16,64):(1,16)>
      sched.publish %ring ahead 4
    }
    sched.grid_launch
  }
}
func.func @f(%x: tensor<128x1024xbf16, #cute.layout<(128,1024):(1024,1)>>, %w: tensor<1024x64xbf16, #cute.layout<(1024,64):(1,1024)>>) -> tensor<128x64xbf16, #cute.layout<(128,64):(64,1)>> {
  %o = sched.launch @f_custom0 %x, %w workspace [-1] : (tensor<128x1024xbf16, #cute.layout<(128,1024):(1024,1)>>, tensor<1024x64xbf16, #cute.layout<(1024,64):(1,1024)>>) -> tensor<128x64xbf16, #cute.layout<(128,64):(64,1)>>
  func.return %o : tensor<128x64xbf16, #cute.layout<(128,64):(64,1)>>
}
