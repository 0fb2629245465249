// The table goes to standard error, the IR stays as it is.
// RUN: mg-opt --report-memory-access %s 2>&1 >/dev/null | filecheck %s --match-full-lines
// RUN: mg-opt %s > %t.plain
// RUN: mg-opt --report-memory-access %s 2>/dev/null | diff - %t.plain

// CHECK: memory accesses of @conflicts, 6 blocks:
// CHECK-NEXT: operator           buffer  instruction       count  moved           ideal  excess  runs
sched.kernel @conflicts inputs 1 grid [6, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<96x256xf16, (96,256):(256,1)>, %o: !sched.global<96x64xf32, (96,64):(64,1)>):
  %xt = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<96x256xf16, (96,256):(256,1)> -> !sched.global<16x64xf16, (16,64):(256,1)>
  %ot = sched.local_tile %o map [0, -1, -1] : !sched.global<96x64xf32, (96,64):(64,1)> -> !sched.global<16x64xf32, (16,64):(64,1)>
  %s = sched.alloc stages 2 : !sched.shared<16x64xf16, (16,64):(64,1)>
  %sum = sched.alloc : !sched.shared<16x64xf32, (16,64):(1,32)>
  sched.prologue {
    // A row of the tile is 128 contiguous bytes: 4 sectors; a warp copies 4 rows.
    // CHECK-NEXT: sched.copy         %xt     cp.async.16       4      64 sectors      64     0       1
    // CHECK-NEXT: sched.copy         %s      cp.async.16       4      16 wavefronts   16     0       1
    sched.copy async %xt to %s by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
    // All stages, and the padding between columns.
    // CHECK-NEXT: sched.fill         %sum    st.shared.v4.b32  16     64 wavefronts   64     0       1
    sched.fill %sum with 0.0 : !sched.shared<16x64xf32, (16,64):(1,32)>
  }
  sched.forloop 4 {
    // Nothing is copied past the last of four iterations.
    // CHECK-NEXT: sched.copy         %xt     cp.async.16       4      64 sectors      64     0       3
    // CHECK-NEXT: sched.copy         %s      cp.async.16       4      16 wavefronts   16     0       3
    sched.copy async %xt to %s by <64, vector 8, order [1, 0]> ahead 1 : !sched.global<16x64xf16, (16,64):(256,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
    // Two columns of a warp: 16 words of one bank, each wanted by both; two words of 16 banks.
    // CHECK-NEXT: sched.map  %s      ld.shared.b16     32     512 wavefronts  32     480     4
    // CHECK-NEXT: sched.map  %sum    ld.shared.b32     32     64 wavefronts   32     32      4
    // CHECK-NEXT: sched.map  %sum    st.shared.b32     32     64 wavefronts   32     32      4
    sched.map exp %s to %sum then [accum] by <64, vector 1, order [0, 1]> : !sched.shared<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf32, (16,64):(1,32)>
  }
  sched.epilogue {
    // A column of the result is 16 rows apart in device memory, and 2 columns a warp.
    // CHECK-NEXT: sched.copy         %sum    ld.shared.b32     32     64 wavefronts   32     32      1
    // CHECK-NEXT: sched.copy         %ot     st.global.b32     32     512 sectors     128    384     1
    sched.copy %sum to %ot by <64, vector 1, order [0, 1]> : !sched.shared<16x64xf32, (16,64):(1,32)> to !sched.global<16x64xf32, (16,64):(64,1)>
  }
}

// A cp.async takes as many wavefronts as the worse of its sides, and each asks for its own sectors.
// CHECK: memory accesses of @copies, 1 blocks:
// CHECK-NEXT: operator    buffer  instruction  count  moved          ideal  excess  runs
sched.kernel @copies inputs 2 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x32xf16, (8,32):(512,1)>, %y: !sched.global<8x32xf16, (8,32):(1,8)>, %o: !sched.global<8x32xf16, (8,32):(32,1)>):
  %a = sched.alloc : !sched.shared<8x32xf16, (8,32):(32,1)>
  %b = sched.alloc : !sched.shared<8x32xf16, (8,32):(1,64)>
  sched.prologue {
    // Two rows of the source lie in the same banks of the L1 cache.
    // CHECK-NEXT: sched.copy  %x      cp.async.16  1      16 sectors     16     0       1
    // CHECK-NEXT: sched.copy  %a      cp.async.16  1      8 wavefronts   4      4       1
    sched.copy async %x to %a by <32, vector 8, order [1, 0]> : !sched.global<8x32xf16, (8,32):(512,1)> to !sched.shared<8x32xf16, (8,32):(32,1)>
    // The writes conflict, so that two lanes never get their sector together.
    // CHECK-NEXT: sched.copy  %y      cp.async.16  1      32 sectors     16     16      1
    // CHECK-NEXT: sched.copy  %b      cp.async.16  1      32 wavefronts  4      28      1
    sched.copy async %y to %b by <32, vector 8, order [0, 1]> : !sched.global<8x32xf16, (8,32):(1,8)> to !sched.shared<8x32xf16, (8,32):(1,64)>
  }
}
