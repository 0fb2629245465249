// Loads run ahead in stages, and barriers stand where threads need what others did.
// RUN: mg-opt --split-input-file --pipeline-loads %s | filecheck %s
// RUN: mg-opt --split-input-file --pipeline-loads --lower-rings --plan-stensor-memory --check-hazards %s | filecheck %s --check-prefix SAFE

// SAFE-COUNT-3: sched.memory_certificate

// Three stages where all threads load: two tiles before the loop, and each iteration starts the one
// two ahead.  Each thread sums what it copied, and the sum of a row needs what others wrote.
// CHECK-LABEL: @copies
// CHECK:       %sx = sched.alloc stages 3
// CHECK:       [[A:%[0-9]+]], [[B:%[0-9]+]] = sched.prologue {
// CHECK-NEXT:    sched.copy async %dw_tile to %sw by <128, vector 8, order [1, 0]> iteration 0
// CHECK-NEXT:    sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> iteration 0
// CHECK-NEXT:    [[FIRST:%[0-9]+]] = sched.commit
// CHECK-NEXT:    sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> iteration 1
// CHECK-NEXT:    [[SECOND:%[0-9]+]] = sched.commit
// CHECK-NEXT:    sched.fill %sum
// CHECK-NEXT:    sched.yield [[FIRST]], [[SECOND]] : !sched.token, !sched.token
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.forloop 8 carrying [[A]], [[B]] : !sched.token, !sched.token {
// CHECK-NEXT:  ^bb0([[OLDEST:%[0-9]+]]: !sched.token, [[NEXT:%[0-9]+]]: !sched.token):
// CHECK-NEXT:    sched.wait pending 1 for [[OLDEST]]
// CHECK-NEXT:    sched.barrier
// CHECK-NEXT:    sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> ahead 2
// CHECK-NEXT:    [[NEW:%[0-9]+]] = sched.commit
// CHECK-NEXT:    sched.map mul_add
// CHECK-NEXT:    sched.yield [[NEXT]], [[NEW]] : !sched.token, !sched.token
// CHECK-NEXT:  }
// CHECK-NEXT:  sched.epilogue {
// CHECK-NOT:     sched.barrier
// CHECK:         sched.copy %sum to %o_tile
sched.kernel @copies inputs 2 grid [1, 1, 1] block [128, 1, 1] forloop 8 plan <tiles = written, loads = cp_async, stages = [3]> {
^bb0(%dx: !sched.global<16x512xf16, (16,512):(512,1)>, %dw: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf32, (16,64):(64,1)>):
  %sx = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<16x512xf16, (16,512):(512,1)> -> !sched.global<16x64xf16, (16,64):(512,1)>
  %sw = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  %dw_tile = sched.local_tile %dw map [-1, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  %sum = sched.alloc : !sched.shared<16x64xf32, (16,64):(64,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<16x64xf32, (16,64):(64,1)> -> !sched.global<16x64xf32, (16,64):(64,1)>
  sched.prologue {
    sched.copy %dw_tile to %sw by <128, vector 8, order [1, 0]> iteration 0 : !sched.global<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
    sched.fill %sum with 0.0 : !sched.shared<16x64xf32, (16,64):(64,1)>
  }
  sched.forloop 8 {
    sched.copy %dx_tile to %sx by <128, vector 8, order [1, 0]> : !sched.global<16x64xf16, (16,64):(512,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
    sched.map mul_add %sum, %sw, %sx to %sum by <128, vector 4, order [1, 0]> : !sched.shared<16x64xf32, (16,64):(64,1)>, !sched.shared<16x64xf16, (16,64):(64,1)>, !sched.shared<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf32, (16,64):(64,1)>
  }
  sched.epilogue {
    sched.copy %sum to %o_tile by <128, vector 4, order [1, 0]> : !sched.shared<16x64xf32, (16,64):(64,1)> to !sched.global<16x64xf32, (16,64):(64,1)>
  }
}

// -----

// A ring of two stages: the producer fills both, then one for each that is read.
// CHECK-LABEL: @ring
// CHECK:       %sx = sched.alloc stages 2
// CHECK:       sched.role "consumers"
// CHECK:         sched.forloop 8 {
// CHECK-NEXT:      sched.consume %ring
// CHECK-NEXT:      sched.map add
// CHECK-NEXT:    }
// CHECK:       sched.role "producer"
// CHECK-NEXT:    sched.prologue {
// CHECK-NEXT:      sched.produce %ring iteration 0 {
// CHECK-NEXT:        sched.bulk_copy %dx_tile to %sx on %ring iteration 0
// CHECK-NEXT:      }
// CHECK-NEXT:      sched.produce %ring iteration 1 {
// CHECK-NEXT:        sched.bulk_copy %dx_tile to %sx on %ring iteration 1
// CHECK-NEXT:      }
// CHECK-NEXT:    }
// CHECK-NEXT:    sched.forloop 8 {
// CHECK-NEXT:      sched.produce %ring ahead 2 {
// CHECK-NEXT:        sched.bulk_copy %dx_tile to %sx on %ring ahead 2
// CHECK-NEXT:      }
sched.kernel @ring inputs 1 grid [1, 1, 1] block [160, 1, 1] forloop 8 plan <tiles = written, loads = tma, stages = [2]> {
^bb0(%dx: !sched.global<16x512xf16, (16,512):(512,1)>, %o: !sched.global<16x64xf32, (16,64):(64,1)>):
  %sx = sched.alloc : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<16x512xf16, (16,512):(512,1)> -> !sched.global<16x64xf16, (16,64):(512,1)>
  %sum = sched.alloc : !sched.shared<16x64xf32, (16,64):(64,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<16x64xf32, (16,64):(64,1)> -> !sched.global<16x64xf32, (16,64):(64,1)>
  %ring = sched.channel %sx : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
  sched.barrier
  sched.role "consumers" warps 4 {
    sched.prologue {
      sched.fill %sum with 0.0 : !sched.shared<16x64xf32, (16,64):(64,1)>
    }
    sched.forloop 8 {
      sched.map add %sum, %sx to %sum by <128, vector 4, order [1, 0]> : !sched.shared<16x64xf32, (16,64):(64,1)>, !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)> to !sched.shared<16x64xf32, (16,64):(64,1)>
    }
    sched.epilogue {
      sched.copy %sum to %o_tile by <128, vector 4, order [1, 0]> : !sched.shared<16x64xf32, (16,64):(64,1)> to !sched.global<16x64xf32, (16,64):(64,1)>
    }
  }
  sched.role "producer" warps 1 elected {
    sched.prologue {
      sched.produce %ring iteration 0 {
        sched.bulk_copy %dx_tile to %sx on %ring iteration 0 : !sched.global<16x64xf16, (16,64):(512,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      }
    }
    sched.forloop 8 {
      sched.produce %ring ahead 1 {
        sched.bulk_copy %dx_tile to %sx on %ring ahead 1 : !sched.global<16x64xf16, (16,64):(512,1)> to !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
      }
    }
  }
}

// -----

// No copy of two bytes a thread is asynchronous: there are no groups, and nothing waits for them.
// CHECK-LABEL: @synchronous
// CHECK-NOT:   sched.commit
// CHECK-NOT:   sched.wait
sched.kernel @synchronous inputs 1 grid [1, 1, 1] block [128, 1, 1] forloop 4 plan <tiles = written, loads = cp_async, stages = [2]> {
^bb0(%dx: !sched.global<16x512xf16, (16,512):(512,1)>, %o: !sched.global<16x128xf16, (16,128):(128,1)>):
  %sx = sched.alloc : !sched.shared<16x128xf16, (16,128):(128,1)>
  %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<16x512xf16, (16,512):(512,1)> -> !sched.global<16x128xf16, (16,128):(512,1)>
  %largest = sched.alloc : !sched.shared<16x128xf16, (16,128):(128,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<16x128xf16, (16,128):(128,1)> -> !sched.global<16x128xf16, (16,128):(128,1)>
  sched.prologue {
    sched.fill %largest with 0.0 : !sched.shared<16x128xf16, (16,128):(128,1)>
  }
  sched.forloop 4 {
    sched.copy %dx_tile to %sx by <128, vector 1, order [1, 0]> : !sched.global<16x128xf16, (16,128):(512,1)> to !sched.shared<16x128xf16, (16,128):(128,1)>
    sched.map max %largest, %sx to %largest by <128, vector 1, order [1, 0]> : !sched.shared<16x128xf16, (16,128):(128,1)>, !sched.shared<16x128xf16, (16,128):(128,1)> to !sched.shared<16x128xf16, (16,128):(128,1)>
  }
  sched.epilogue {
    sched.copy %largest to %o_tile by <128, vector 1, order [1, 0]> : !sched.shared<16x128xf16, (16,128):(128,1)> to !sched.global<16x128xf16, (16,128):(128,1)>
  }
}
