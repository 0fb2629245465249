// A kernel with a cluster: two blocks have the tiles of A in common, of two boxes each; one brings the first to both, the other
// the second.
// RUN: mg-opt --check-hazards %s | filecheck %s
// RUN: mg-opt -t cuda %s | filecheck %s --check-prefix=CUDA
// RUN: mg-run --level=address --check %s
// RUN: sed '/sched.cluster_barrier/d' %s | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix=UNMET

// CHECK: block [160, 1, 1] cluster [2, 1, 1]
// CHECK: sched.bulk_copy multicast %da_tile to %sa on %ring ahead 4

// CUDA: __launch_bounds__(160, 1) __cluster_dims__(2, 1, 1)
// CUDA: tb::Channel<4, 2> const ring(
// CUDA: mugraph::cluster_start();
// CUDA: if (thread >= 128) {
// CUDA-NEXT: if (thread / 32 == 4 && mugraph::elect_one()) {
// CUDA: if (mugraph::cluster_rank() == 0) mugraph::bulk_multicast<2>(sa, &da_map, ring.full(0), 0, 0);
// CUDA-NEXT: if (mugraph::cluster_rank() == 1) mugraph::bulk_multicast<2>(sa + 4096, &da_map, ring.full(0), 64, 0);
// CUDA-NEXT: }
// CUDA: mugraph::bulk_load(sb, &db_map, ring.full(0), blockIdx.x * 64, 0);
// CUDA: mugraph::cluster_barrier();
// CUDA-NEXT: }

// UNMET: 'sched.bulk_copy' of %da_tile: a 'sched.cluster_barrier' must stand before the roles of the kernel and at the end of each

builtin.module {
  sched.kernel @row_custom0 inputs 2 grid [4, 1, 1] block [160, 1, 1] cluster [2, 1, 1] smem 131200 resident 1 forloop 5 {
  ^bb0(%da: !sched.global<64x640xf16, (64,640):(640,1)>, %db: !sched.global<640x256xf16, (640,256):(256,1)>, %o: !sched.global<64x256xf16, (64,256):(256,1)>):
    %sa = sched.alloc stages 4 offset 0 : !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
    %da_tile = sched.local_tile %da map [-1, -1, -1] fordim 1 : !sched.global<64x640xf16, (64,640):(640,1)> -> !sched.global<64x128xf16, (64,128):(640,1)>
    %sb = sched.alloc stages 4 offset 65536 : !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
    %db_tile = sched.local_tile %db map [1, -1, -1] fordim 0 : !sched.global<640x256xf16, (640,256):(256,1)> -> !sched.global<128x64xf16, (128,64):(256,1)>
    %o_tile = sched.local_tile %o map [1, -1, -1] : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
    %ring = sched.channel %sa, %sb offset 131072 : !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>, !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
    sched.barrier
    sched.cluster_barrier
    sched.role "consumers" warps 4 {
      %total = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %total_1 = sched.prologue {
        %total_2 = sched.fill %total with 0.000000e+00 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
        sched.yield %total_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %total_3 = sched.forloop 5 carrying %total_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
      ^bb0(%total_4: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
        sched.consume %ring
        %total_5 = sched.warpgroup_mma async %sa, %sb to %total_4 : !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>, !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
        sched.warpgroup_wait pending 1
        sched.release %ring ahead -1
        sched.yield %total_5 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      }
      sched.epilogue {
        sched.warpgroup_wait pending 0
        sched.store %total_3 to %o_tile : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.global<64x64xf16, (64,64):(256,1)>
      }
      sched.cluster_barrier
    }
    sched.role "producer" warps 1 elected {
      sched.prologue {
        sched.bulk_copy multicast %da_tile to %sa on %ring iteration 0 : !sched.global<64x128xf16, (64,128):(640,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
        sched.bulk_copy %db_tile to %sb on %ring iteration 0 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
        sched.publish %ring iteration 0
        sched.bulk_copy multicast %da_tile to %sa on %ring iteration 1 : !sched.global<64x128xf16, (64,128):(640,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
        sched.bulk_copy %db_tile to %sb on %ring iteration 1 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
        sched.publish %ring iteration 1
        sched.bulk_copy multicast %da_tile to %sa on %ring iteration 2 : !sched.global<64x128xf16, (64,128):(640,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
        sched.bulk_copy %db_tile to %sb on %ring iteration 2 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
        sched.publish %ring iteration 2
        sched.bulk_copy multicast %da_tile to %sa on %ring iteration 3 : !sched.global<64x128xf16, (64,128):(640,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
        sched.bulk_copy %db_tile to %sb on %ring iteration 3 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
        sched.publish %ring iteration 3
      }
      sched.forloop 5 {
        sched.acquire %ring ahead 4
        sched.bulk_copy multicast %da_tile to %sa on %ring ahead 4 : !sched.global<64x128xf16, (64,128):(640,1)> to !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
        sched.bulk_copy %db_tile to %sb on %ring ahead 4 : !sched.global<128x64xf16, (128,64):(256,1)> to !sched.shared<128x64xf16, S<3,3,3> o (128,64):(64,1)>
        sched.publish %ring ahead 4
      }
      sched.cluster_barrier
    }
  }
  func.func @row(%signed: tensor<64x640xf16, #cute.layout<(64,640):(640,1)>>, %signed_1: tensor<640x256xf16, #cute.layout<(640,256):(256,1)>>) -> tensor<64x256xf16, #cute.layout<(64,256):(256,1)>> attributes {kn.workspace_bytes = 0 : i64} {
    %o = sched.launch @row_custom0 %signed, %signed_1 workspace [-1] : (tensor<64x640xf16, #cute.layout<(64,640):(640,1)>>, tensor<640x256xf16, #cute.layout<(640,256):(256,1)>>) -> tensor<64x256xf16, #cute.layout<(64,256):(256,1)>>
    func.return %o : tensor<64x256xf16, #cute.layout<(64,256):(256,1)>>
  }
}

