// RUN: mg-opt --verify-diagnostics --split-input-file %s | filecheck %s

// CHECK: 'sched.role' "one": turn 0 has a meaning only in a kernel whose blocks take several blocks of the grid ('persistent')
sched.kernel @k inputs 0 grid [4, 1, 1] block [64, 1, 1] {
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": the roles of the kernel have the turns [0, 2]; there are at least two, from 0 on, one role for each
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 2 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": the roles of the kernel have the turns [0]; there are at least two
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": roles that take turns have equally many warps, not [1, 2]
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 2 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "other": an elected role loads for every block of the grid; it has no turn
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 1 elected {
    sched.commit
  }
}

// -----

// CHECK: 'sched.turns' %order is an order of turns, and no role has one
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  %order = sched.turns
  sched.role "one" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.await_turn' of %order stands outside of roles with a 'turn'; only these have an order
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  %order = sched.turns
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
  sched.role "third" warps 1 {
    sched.prologue {
      sched.await_turn %order
    }
  }
}

// -----

// CHECK: 'sched.pass_turn' of %order stands in the loop; a turn comes once for each block of the grid, not for each iteration
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.turns
  sched.role "one" warps 1 turn 0 {
    sched.forloop 4 {
      sched.pass_turn %order
    }
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.pass_turn' of %order stands outside of phases, and would run once; a turn comes for each block of the grid
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.turns
  sched.role "one" warps 1 turn 0 {
    sched.pass_turn %order
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.await_turn' of %order stands 2 times in 'sched.role' "one"; a turn comes once for each block of the grid
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.turns
  sched.role "one" warps 1 turn 0 {
    sched.prologue {
      sched.await_turn %order
    }
    sched.epilogue {
      sched.await_turn %order
    }
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.turns' %order: offset 12 must be a multiple of 8 bytes
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.turns offset 12
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.turns' %order ends at byte 272, beyond the kernel's smem 256
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] smem 256 {
  %order = sched.turns offset 256
  sched.role "one" warps 1 turn 0 {
    sched.barrier
  }
  sched.role "other" warps 1 turn 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one" and 'sched.role' "other" take turns, and both use %a, which is no buffer of a channel; each needs one of its own
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %a = sched.alloc : !sched.shared<8x16xf32, (8,16):(16,1)>
  %order = sched.turns
  sched.role "one" warps 1 turn 0 {
    sched.prologue {
      sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
    }
  }
  sched.role "other" warps 1 turn 1 {
    sched.prologue {
      sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
    }
  }
}
