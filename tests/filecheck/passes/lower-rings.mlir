// Who waits for whom at a ring follows from what fills it and from what reads it.
// RUN: mg-opt --split-input-file --lower-rings %s -o %t.once.mlir
// RUN: filecheck %s < %t.once.mlir
// RUN: mg-opt --split-input-file --lower-rings --plan-stensor-memory --check-hazards %s | filecheck %s --check-prefix SAFE
// RUN: mg-opt --split-input-file --plan-stensor-memory --check-hazards %s | filecheck %s --check-prefix SAFE
// RUN: mg-opt --split-input-file --lower-rings %t.once.mlir | cmp - %t.once.mlir
// RUN: not mg-opt --plan="tiles=written loads=tma" --resolve-layout --plan-dtensor-memory --lower-threadblock --pipeline-loads --plan-stensor-memory -t cuda %S/Inputs/warpgroup-gemm.mlir 2>&1 | filecheck %s --check-prefix PRINTED

// SAFE-COUNT-7: sched.progress_certificate
// PRINTED: 'sched.produce' of %ring must become steps on mbarriers; run --lower-rings

// Threads load: a stage is kept for one iteration, in which what they loaded has been used.  The
// first fills find all stages empty.
// CHECK-LABEL: @loads
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.release %ring ahead -1
// CHECK-NEXT:    sched.map square
// CHECK-NEXT:    sched.map relu
// CHECK-NEXT:  }
// CHECK:       sched.prologue {
// CHECK-NEXT:    sched.bulk_copy %x_tile to %sx on %ring iteration 0
// CHECK-NEXT:    sched.publish %ring iteration 0
// CHECK-NEXT:    sched.bulk_copy %x_tile to %sx on %ring iteration 1
// CHECK-NEXT:    sched.publish %ring iteration 1
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.forloop 4 {
// CHECK-NEXT:    sched.acquire %ring ahead 2
// CHECK-NEXT:    sched.bulk_copy %x_tile to %sx on %ring ahead 2
// CHECK-NEXT:    sched.publish %ring ahead 2
// CHECK-NEXT:  }
sched.kernel @loads inputs 1 grid [1, 1, 1] block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc stages 2 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    sched.forloop 4 {
      %r = sched.empty : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.consume %ring
      %r_1 = sched.map square %sx to %r by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      %r_2 = sched.map relu %sx to %r_1 by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %ring iteration 1 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 2 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 2 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// One stage: it is released behind its last reader, and a fence sees to what is still being loaded.
// CHECK-LABEL: @one_stage
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.map square
// CHECK-NEXT:    sched.proxy_fence
// CHECK-NEXT:    sched.release %ring
// CHECK-NEXT:    sched.map relu
sched.kernel @one_stage inputs 1 grid [1, 1, 1] block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    sched.forloop 4 {
      %r = sched.empty : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.consume %ring
      %r_1 = sched.map square %sx to %r by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      %r_2 = sched.map relu %r_1 to %r_1 : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 1 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// A product that runs on into the next iteration keeps its stage until the wait there.  The block is
// persistent: the first fills wait for the work tile before, and the last stage is released, too.
// CHECK-LABEL: @product
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.warpgroup_mma async %sx, %sx to %m
// CHECK-NEXT:    sched.warpgroup_wait pending 1
// CHECK-NEXT:    sched.release %ring ahead -1
// CHECK-NEXT:    sched.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.epilogue {
// CHECK-NEXT:    sched.warpgroup_wait pending 0
// CHECK-NEXT:    sched.release %ring iteration 3
// CHECK-NEXT:    sched.map relu
// CHECK:       sched.prologue {
// CHECK-NEXT:    sched.acquire %ring iteration 0
// CHECK-NEXT:    sched.bulk_copy %x_tile to %sx on %ring iteration 0
// CHECK-NEXT:    sched.publish %ring iteration 0
sched.kernel @product inputs 1 grid [4, 1, 1] persistent 2 block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc stages 2 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_2 = sched.prologue {
      %m_1 = sched.fill %m with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_6 = sched.forloop 4 carrying %m_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%m_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      sched.consume %ring
      %m_4 = sched.warpgroup_mma async %sx, %sx to %m_3 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.warpgroup_wait pending 1
      sched.yield %m_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
    sched.epilogue {
      sched.warpgroup_wait pending 0
      %m_7 = sched.map relu %m_6 to %m_6 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %ring iteration 1 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 2 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 2 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// Threads load from the stages of such products, too.  In the next iteration what they loaded has been
// used; behind the loop a fence sees to it.
// CHECK-LABEL: @product_and_loads
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.warpgroup_mma async %sx, %sx to %m
// CHECK-NEXT:    sched.map square
// CHECK-NEXT:    sched.warpgroup_wait pending 1
// CHECK-NEXT:    sched.release %ring ahead -1
// CHECK-NEXT:    sched.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.epilogue {
// CHECK-NEXT:    sched.warpgroup_wait pending 0
// CHECK-NEXT:    sched.proxy_fence
// CHECK-NEXT:    sched.release %ring iteration 3
sched.kernel @product_and_loads inputs 1 grid [4, 1, 1] persistent 2 block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc stages 2 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_2 = sched.prologue {
      %m_1 = sched.fill %m with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_6 = sched.forloop 4 carrying %m_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%m_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      %r = sched.empty : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.consume %ring
      %m_4 = sched.warpgroup_mma async %sx, %sx to %m_3 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %r_1 = sched.map square %sx to %r by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.warpgroup_wait pending 1
      sched.yield %m_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
    sched.epilogue {
      sched.warpgroup_wait pending 0
      %m_7 = sched.map relu %m_6 to %m_6 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %ring iteration 1 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 2 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 2 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// A product that ends in its iteration keeps the stage longer than a load does.
// CHECK-LABEL: @beside
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.warpgroup_mma async %sx, %sx to %m
// CHECK-NEXT:    sched.map square
// CHECK-NEXT:    sched.warpgroup_wait pending 0
// CHECK-NEXT:    sched.proxy_fence
// CHECK-NEXT:    sched.release %ring
// CHECK-NEXT:    sched.yield
// CHECK-NEXT:  }
sched.kernel @beside inputs 1 grid [1, 1, 1] block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc stages 2 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_2 = sched.prologue {
      %m_1 = sched.fill %m with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_6 = sched.forloop 4 carrying %m_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%m_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      %r = sched.empty : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.consume %ring
      %m_4 = sched.warpgroup_mma async %sx, %sx to %m_3 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %r_1 = sched.map square %sx to %r by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.warpgroup_wait pending 0
      sched.yield %m_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %ring iteration 1 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 2 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 2 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// Products of two rings: one of this iteration, which ends at the first wait, and one of what the
// iteration before left, which ends at the second.
// CHECK-LABEL: @chain
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.consume %late
// CHECK-NEXT:    sched.warpgroup_mma async %sx, %sx to %m
// CHECK-NEXT:    sched.warpgroup_mma async %sy, %sy to %n{{.*}} ahead -1
// CHECK-NEXT:    sched.warpgroup_wait pending 1
// CHECK-NEXT:    sched.release %ring{{$}}
// CHECK-NEXT:    sched.map relu
// CHECK-NEXT:    sched.warpgroup_wait pending 0
// CHECK-NEXT:    sched.release %late ahead -1
// CHECK-NEXT:    sched.yield
// CHECK-NEXT:  }
sched.kernel @chain inputs 1 grid [1, 1, 1] block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %sy = sched.alloc stages 2 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %late = sched.channel %sy : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %n = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_2, %n_2 = sched.prologue {
      %m_1 = sched.fill %m with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %n_1 = sched.fill %n with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_1, %n_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_6, %n_6 = sched.forloop 4 carrying %m_2, %n_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%m_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, %n_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      sched.consume %ring
      sched.consume %late
      %m_4 = sched.warpgroup_mma async %sx, %sx to %m_3 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      %n_4 = sched.warpgroup_mma async %sy, %sy to %n_3 ahead -1 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.warpgroup_wait pending 1
      %m_5 = sched.map relu %m_4 to %m_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.warpgroup_wait pending 0
      sched.yield %m_5, %n_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %x_tile to %sx on %ring iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %late iteration 0 {
        sched.bulk_copy %x_tile to %sy on %late iteration 0 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %late iteration 1 {
        sched.bulk_copy %x_tile to %sy on %late iteration 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
    sched.forloop 4 {
      sched.produce %ring ahead 1 {
        sched.bulk_copy %x_tile to %sx on %ring ahead 1 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %late ahead 2 {
        sched.bulk_copy %x_tile to %sy on %late ahead 2 : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}

// -----

// Nothing behind the loop waits for what threads load in a persistent block: a fence does.  A product
// that the program waits for where it stands frees its stage at once.
// CHECK-LABEL: @several
// CHECK:       sched.forloop 4
// CHECK:         sched.consume %ring
// CHECK-NEXT:    sched.release %ring ahead -1
// CHECK-NEXT:    sched.consume %other
// CHECK-NEXT:    sched.map square
// CHECK-NEXT:    sched.warpgroup_mma %sy, %sy to %m
// CHECK-NEXT:    sched.release %other{{$}}
// CHECK-NEXT:    sched.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.epilogue {
// CHECK-NEXT:    sched.map relu
// CHECK-NEXT:    sched.proxy_fence
// CHECK-NEXT:    sched.release %ring iteration 3
// CHECK-NEXT:  }
sched.kernel @several inputs 1 grid [4, 1, 1] persistent 2 block [160, 1, 1] forloop 4 {
^bb0(%x: !sched.global<64x256xf16, (64,256):(256,1)>):
  %sx = sched.alloc stages 4 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %sy = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x256xf16, (64,256):(256,1)> -> !sched.global<64x64xf16, (64,64):(256,1)>
  %ring = sched.channel %sx : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %other = sched.channel %sy : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_2 = sched.prologue {
      %m_1 = sched.fill %m with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_1 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    } -> !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    %m_6 = sched.forloop 4 carrying %m_2 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> {
    ^bb0(%m_3: !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>):
      %r = sched.empty : !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      sched.consume %ring
      sched.consume %other
      %r_1 = sched.map square %sx to %r by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #sched.linear<128, vector 8, order [1, 0]>>
      %m_4 = sched.warpgroup_mma %sy, %sy to %m_3 : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
      sched.yield %m_4 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
    sched.epilogue {
      %m_7 = sched.map relu %m_6 to %m_6 : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.produce %ring {
        sched.bulk_copy %x_tile to %sx on %ring : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
      sched.produce %other {
        sched.bulk_copy %x_tile to %sy on %other : !sched.global<64x64xf16, (64,64):(256,1)> to !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
      }
    }
  }
}
