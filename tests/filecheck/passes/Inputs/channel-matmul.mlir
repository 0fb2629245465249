// x [16,256] times w [256,64]: one channel brings a tile of each, 64 deep; four warps multiply, one loads.
sched.kernel @channel_matmul inputs 2 grid [1, 1, 1] block [160, 1, 1] smem 32896 forloop 4 {
^bb0(%x: !sched.global<16x256xf16, (16,256):(256,1)>, %w: !sched.global<256x64xf16, (256,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %sx = sched.alloc stages 3 offset 24576 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<16x256xf16, (16,256):(256,1)> -> !sched.global<16x64xf16, (16,64):(256,1)>
  %sw = sched.alloc stages 3 offset 0 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %w_tile = sched.local_tile %w map [-1, -1, -1] fordim 0 : !sched.global<256x64xf16, (256,64):(64,1)> -> !sched.global<64x64xf16, (64,64):(64,1)>
  %d = sched.alloc offset 30720 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  %ring = sched.channel %sx, %sw offset 32768 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    %m_1 = sched.prologue {
      %m_2 = sched.fill %m with 0.000000e+00 : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
      sched.yield %m_2 : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    } -> !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    %m_3 = sched.forloop 4 carrying %m_1 : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>> {
    ^bb0(%m_4: !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>):
      sched.consume %ring
      sched.release %ring ahead -1
      %m_5 = sched.mma %sx, %sw to %m_4 ldmatrix [true, true] : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
      sched.yield %m_5 : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>>
    }
    sched.epilogue {
      sched.store %m_3 to %d : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,4,1)>> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.barrier
      sched.copy %d to %o_tile by <128, vector 8, order [1, 0]> : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)> to !sched.global<16x64xf16, (16,64):(64,1)>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.bulk_copy %w_tile to %sw on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.bulk_copy %w_tile to %sw on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.bulk_copy %w_tile to %sw on %ring iteration 2 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring iteration 0
      sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring iteration 1
      sched.bulk_copy %x_tile to %sx on %ring iteration 2 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring iteration 2
    }
    sched.forloop 4 {
      sched.acquire %ring ahead 3
      sched.bulk_copy %x_tile to %sx on %ring ahead 3 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.bulk_copy %w_tile to %sw on %ring ahead 3 : !sched.global<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      sched.publish %ring ahead 3
    }
  }
}
func.func @matmul(%x: tensor<16x256xf16, #cute.layout<(16,256):(256,1)>>, %w: tensor<256x64xf16, #cute.layout<(256,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>> attributes {kn.workspace_bytes = 0 : i64} {
  %o = sched.launch @channel_matmul %x, %w workspace [-1] : (tensor<16x256xf16, #cute.layout<(16,256):(256,1)>>, tensor<256x64xf16, #cute.layout<(256,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
  func.return %o : tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
}
