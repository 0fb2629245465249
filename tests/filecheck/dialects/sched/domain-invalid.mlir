// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'sched.kernel' @other_rank: its conditions are on 1 dimensions and 0 symbols, expected 4 dimensions, those of 4x1x1x8
sched.kernel @other_rank inputs 0 grid [4, 1, 1] block [32, 1, 1] forloop 8 where affine_set<(it) : (it >= 0)> {
  sched.forloop 8 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @not_linear: the condition (d3 mod 2) >= 0 is not linear; a form of coordinates times whole numbers is compared with a number
sched.kernel @not_linear inputs 0 grid [4, 1, 1] block [32, 1, 1] forloop 8 where affine_set<(x, y, z, it) : (it mod 2 >= 0)> {
  sched.forloop 8 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @persists: which iterations a block runs depends on it, expected no 'persistent'
sched.kernel @persists inputs 0 grid [4, 1, 1] persistent 2 block [32, 1, 1] forloop 8 where affine_set<(x, y, z, it) : (it >= 0)> {
  sched.role "all" warps 1 {
    sched.forloop 8 {
      sched.barrier
    }
  }
}

// -----

// CHECK: 'sched.forloop': its body does 2 iterations, and 'where' of 'sched.kernel' @steps lets blocks run any number of them, which it may not divide; leave out 'step'
sched.kernel @steps inputs 0 grid [4, 1, 1] block [32, 1, 1] forloop 8 where affine_set<(x, y, z, it) : (x - it >= 0)> {
  sched.forloop 8 step 2 {
    sched.barrier
  }
}
