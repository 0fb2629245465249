// a [128,256] times b [256,128] by two warp groups, 64 deep; one group of products stays unfinished.
sched.kernel @warpgroup_matmul inputs 2 grid [1, 1, 1] block [288, 1, 1] smem 98432 forloop 4 {
^bb0(%a: !sched.global<128x256xf16, (128,256):(256,1)>, %b: !sched.global<256x128xf16, (256,128):(128,1)>, %o: !sched.global<128x128xf16, (128,128):(128,1)>):
  %sa = sched.alloc stages 3 offset 0 : !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
  %a_tile = sched.local_tile %a map [-1, -1, -1] fordim 1 : !sched.global<128x256xf16, (128,256):(256,1)> -> !sched.global<128x64xf16, (128,64):(256,1)>
  %sb = sched.alloc stages 3 offset 49152 : !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
  %b_tile = sched.local_tile %b map [-1, -1, -1] fordim 0 : !sched.global<256x128xf16, (256,128):(128,1)> -> !sched.global<64x128xf16, (64,128):(128,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<128x128xf16, (128,128):(128,1)> -> !sched.global<128x128xf16, (128,128):(128,1)>
  %d = sched.alloc offset 0 : !sched.shared<128x128xf16, S<3,3,4> o (128,128):(128,1)>
  %ring = sched.channel %sa, %sb offset 98304 : !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>, !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
  sched.barrier
  sched.role "consumers" warps 8 {
    %m = sched.empty : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
    %m_1 = sched.prologue {
      %m_2 = sched.fill %m with 0.000000e+00 : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
      sched.yield %m_2 : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
    } -> !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
    %m_3 = sched.forloop 4 carrying %m_1 : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>> {
    ^bb0(%m_4: !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>):
      sched.consume %ring
      %m_5 = sched.warpgroup_mma async %sa, %sb to %m_4 : !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>, !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))> to !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
      sched.warpgroup_wait pending 1
      sched.release %ring ahead -1
      sched.yield %m_5 : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>>
    }
    sched.epilogue {
      sched.warpgroup_wait pending 0
      sched.barrier
      sched.store %m_3 to %d : !sched.tile<128x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (2,1,1)>> to !sched.shared<128x128xf16, S<3,3,4> o (128,128):(128,1)>
      sched.barrier
      sched.copy %d to %o_tile by <256, vector 8, order [1, 0]> : !sched.shared<128x128xf16, S<3,3,4> o (128,128):(128,1)> to !sched.global<128x128xf16, (128,128):(128,1)>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.bulk_copy %a_tile to %sa on %ring iteration 0 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
      sched.bulk_copy %b_tile to %sb on %ring iteration 0 : !sched.global<64x128xf16, (64,128):(128,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
      sched.publish %ring iteration 0
      sched.bulk_copy %a_tile to %sa on %ring iteration 1 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
      sched.bulk_copy %b_tile to %sb on %ring iteration 1 : !sched.global<64x128xf16, (64,128):(128,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
      sched.publish %ring iteration 1
      sched.bulk_copy %a_tile to %sa on %ring iteration 2 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
      sched.bulk_copy %b_tile to %sb on %ring iteration 2 : !sched.global<64x128xf16, (64,128):(128,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
      sched.publish %ring iteration 2
    }
    sched.forloop 4 {
      sched.acquire %ring ahead 3
      sched.bulk_copy %a_tile to %sa on %ring ahead 3 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
      sched.bulk_copy %b_tile to %sb on %ring ahead 3 : !sched.global<64x128xf16, (64,128):(128,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
      sched.publish %ring ahead 3
    }
  }
}
func.func @matmul(%a: tensor<128x256xf16, #cute.layout<(128,256):(256,1)>>, %b: tensor<256x128xf16, #cute.layout<(256,128):(128,1)>>) -> tensor<128x128xf16, #cute.layout<(128,128):(128,1)>> attributes {kn.workspace_bytes = 0 : i64} {
  %o = sched.launch @warpgroup_matmul %a, %b workspace [-1] : (tensor<128x256xf16, #cute.layout<(128,256):(256,1)>>, tensor<256x128xf16, #cute.layout<(256,128):(128,1)>>) -> tensor<128x128xf16, #cute.layout<(128,128):(128,1)>>
  func.return %o : tensor<128x128xf16, #cute.layout<(128,128):(128,1)>>
}
