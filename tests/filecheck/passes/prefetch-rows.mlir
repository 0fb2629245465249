// RUN: mg-opt --prefetch-rows %s | filecheck %s
// RUN: mg-opt --prefetch-rows=arch=sm_80 %s | filecheck %s --check-prefix=NONE

// Rows of 1,001 elements are shifted in registers: threads ask for the tile of two iterations later, and in the first
// iteration for the one before it, too. What all blocks load, and rows that cp.async brings, nobody asks for.

// CHECK: sched.copy %x_tile to %x_1 by <32, vector 8, order [1, 0]> within [1] :
// CHECK: sched.copy %w_tile to %w_1 by <32, vector 8, order [1, 0]> within [1] prefetch 2 :
// CHECK: sched.copy async %v_tile to %v_1 by <32, vector 8, order [1, 0]> :
// NONE-NOT: prefetch
sched.kernel @k inputs 3 grid [16, 1, 1] block [32, 1, 1] forloop 4 {
^bb0(%x: !sched.global<4x67xf16, (4,67):(67,1)>, %w: !sched.global<64x1001xf16, (64,1001):(1001,1)>, %v: !sched.global<64x1024xf16, (64,1024):(1024,1)>):
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 0 : !sched.global<4x67xf16, (4,67):(67,1)> -> !sched.global<1x72xf16, (1,72):(67,1)>
  %w_tile = sched.local_tile %w map [1, -1, -1] fordim 0 : !sched.global<64x1001xf16, (64,1001):(1001,1)> -> !sched.global<16x64xf16, (16,64):(1001,1)>
  %v_tile = sched.local_tile %v map [1, -1, -1] fordim 0 : !sched.global<64x1024xf16, (64,1024):(1024,1)> -> !sched.global<16x64xf16, (16,64):(1024,1)>
  %x_1 = sched.alloc : !sched.shared<1x72xf16, (1,72):(72,1)>
  %w_1 = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  %v_1 = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  sched.forloop 4 {
    sched.copy %x_tile to %x_1 by <32, vector 8, order [1, 0]> within [1] : !sched.global<1x72xf16, (1,72):(67,1)> to !sched.shared<1x72xf16, (1,72):(72,1)>
    sched.copy %w_tile to %w_1 by <32, vector 8, order [1, 0]> within [1] : !sched.global<16x64xf16, (16,64):(1001,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
    sched.copy async %v_tile to %v_1 by <32, vector 8, order [1, 0]> : !sched.global<16x64xf16, (16,64):(1024,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
  }
}
