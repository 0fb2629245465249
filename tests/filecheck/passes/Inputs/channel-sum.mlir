// Consumers add up the tiles of x that a producer brings through a ring of two stages, each with b added, which comes
// once through a channel of its own.
sched.kernel @channel_sum inputs 2 grid [2, 1, 1] block [96, 1, 1] smem 8448 forloop 4 {
^bb0(%x: !sched.global<32x256xf16, (32,256):(256,1)>, %b: !sched.global<32x64xf16, (32,64):(64,1)>, %o: !sched.global<32x64xf16, (32,64):(64,1)>):
  %sx = sched.alloc stages 2 offset 0 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %x_tile = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<32x256xf16, (32,256):(256,1)> -> !sched.global<16x64xf16, (16,64):(256,1)>
  %sb = sched.alloc offset 4096 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %b_tile = sched.local_tile %b map [0, -1, -1] : !sched.global<32x64xf16, (32,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  %d = sched.alloc offset 6144 : !sched.shared<16x64xf16, (16,64):(64,1)>
  %o_tile = sched.local_tile %o map [0, -1, -1] : !sched.global<32x64xf16, (32,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  %ring = sched.channel %sx offset 8192 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %once = sched.channel %sb offset 8320 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 2 {
    %sum = sched.empty : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
    %sum_1 = sched.prologue {
      %sum_2 = sched.fill %sum with 0.000000e+00 : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
      sched.consume %once iteration 0
      sched.yield %sum_2 : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
    } -> !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
    %sum_3 = sched.forloop 4 carrying %sum_1 : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>> {
    ^bb0(%sum_4: !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>):
      sched.consume %ring
      sched.release %ring ahead -1
      %sum_5 = sched.map add %sx, %sb to %sum_4 then [accum] by <64, vector 8, order [1, 0]> : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>, !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)> to !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
      sched.yield %sum_5 : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>>
    }
    sched.epilogue {
      sched.store %sum_3 to %d : !sched.tile<16x64xf32, #sched.linear<64, vector 8, order [1, 0]>> to !sched.shared<16x64xf16, (16,64):(64,1)>
      sched.barrier
      sched.copy %d to %o_tile by <64, vector 8, order [1, 0]> : !sched.shared<16x64xf16, (16,64):(64,1)> to !sched.global<16x64xf16, (16,64):(64,1)>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.bulk_copy %b_tile to %sb on %once iteration 0 : !sched.global<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %once iteration 0
      sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring iteration 0
      sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring iteration 1
    }
    sched.forloop 4 {
      sched.acquire %ring ahead 2
      sched.bulk_copy %x_tile to %sx on %ring ahead 2 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      sched.publish %ring ahead 2
    }
  }
}
func.func @sum(%x: tensor<32x256xf16, #cute.layout<(32,256):(256,1)>>, %b: tensor<32x64xf16, #cute.layout<(32,64):(64,1)>>) -> tensor<32x64xf16, #cute.layout<(32,64):(64,1)>> attributes {kn.workspace_bytes = 0 : i64} {
  %o = sched.launch @channel_sum %x, %b workspace [-1] : (tensor<32x256xf16, #cute.layout<(32,256):(256,1)>>, tensor<32x64xf16, #cute.layout<(32,64):(64,1)>>) -> tensor<32x64xf16, #cute.layout<(32,64):(64,1)>>
  func.return %o : tensor<32x64xf16, #cute.layout<(32,64):(64,1)>>
}
