// RUN: mg-opt --verify-diagnostics --split-input-file %s | filecheck %s

// CHECK: 'sched.prefetch' of %t: the elements of its operand must lie side by side in device memory, in whole 16 bytes; ask for tiles of full rows
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x64xf16, (8,64):(64,1)>):
  %t = sched.local_tile %x map [1, -1, -1] : !sched.global<8x64xf16, (8,64):(64,1)> -> !sched.global<8x32xf16, (8,32):(64,1)>
  sched.prologue {
    sched.prefetch %t : !sched.global<8x32xf16, (8,32):(64,1)>
  }
}

// -----

// CHECK: 'sched.prefetch' of %t: it has a meaning only before the loop, in the prologue
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x64xf16, (8,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] : !sched.global<8x64xf16, (8,64):(64,1)> -> !sched.global<4x64xf16, (4,64):(64,1)>
  sched.epilogue {
    sched.prefetch %t : !sched.global<4x64xf16, (4,64):(64,1)>
  }
}
