// What stands outside of phases is of no block of the grid.

// RUN: mg-opt --verify-diagnostics --split-input-file %s | filecheck %s

// CHECK: 'sched.consume' of %c stands outside of phases, and would run once; in a persistent kernel iterations are those of a block of the grid, so put it into a phase
sched.kernel @behind_the_loop inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.barrier
  sched.role "consumers" warps 1 {
    sched.forloop 4 {
      sched.release %c
    }
    sched.consume %c iteration 3
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t stands outside of phases, and would run once
sched.kernel @before_the_loop inputs 1 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
^bb0(%x: !sched.global<32x64xf16, (32,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<32x64xf16, (32,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.barrier
  sched.role "producer" warps 1 elected {
    sched.bulk_copy %t to %a on %c iteration 0 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.forloop 4 {
      sched.publish %c
    }
  }
}

// -----

// CHECK: 'sched.fill' of %a stands outside of phases, and would run once; in a persistent kernel %a is used for each block of the grid, so put it into a phase
sched.kernel @in_a_role inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %a = sched.alloc stages 2 : !sched.shared<8x16xf32, (8,16):(16,1)>
  sched.role "one" warps 1 {
    sched.prologue {
      sched.barrier
    }
    sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
  }
}

// -----

// CHECK: 'sched.fill' of %a stands outside of phases, and would run once
sched.kernel @before_roles inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %a = sched.alloc : !sched.shared<8x16xf32, (8,16):(16,1)>
  sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
  sched.role "one" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.epilogue' stands outside of roles; persistent blocks have several work tiles, and the phases of roles run for each
sched.kernel @phases_of_no_role inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  sched.role "one" warps 1 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}
