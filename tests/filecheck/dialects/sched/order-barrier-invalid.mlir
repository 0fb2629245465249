// RUN: mg-opt --verify-diagnostics --split-input-file %s | filecheck %s

// CHECK: 'sched.role' "one": ping_pong 0 has a meaning only in a kernel with persistent blocks ('persistent')
sched.kernel @k inputs 0 grid [4, 1, 1] block [64, 1, 1] {
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": the roles of the kernel have ping_pong [0, 2]; there are at least two, from 0 on, one role for each
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 2 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": the roles of the kernel have ping_pong [0]; there are at least two
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one": ping-pong roles have equally many warps, not [1, 2]
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 2 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "other": an elected role loads for every work tile; it has no ping_pong
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 1 elected {
    sched.commit
  }
}

// -----

// CHECK: 'sched.order_barrier' %order: no role of the kernel has a 'ping_pong'
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  %order = sched.order_barrier
  sched.role "one" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.order_wait' of %order stands outside of roles with a 'ping_pong'; only these have an order
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [96, 1, 1] {
  %order = sched.order_barrier
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
  sched.role "third" warps 1 {
    sched.prologue {
      sched.order_wait %order
    }
  }
}

// -----

// CHECK: 'sched.order_arrive' of %order stands in the loop; it comes once for each work tile, not for each iteration
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.order_barrier
  sched.role "one" warps 1 ping_pong 0 {
    sched.forloop 4 {
      sched.order_arrive %order
    }
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.order_arrive' of %order stands outside of phases, and would run once; it is for each work tile
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.order_barrier
  sched.role "one" warps 1 ping_pong 0 {
    sched.order_arrive %order
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.order_wait' of %order stands 2 times in 'sched.role' "one"; it comes once for each work tile
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.order_barrier
  sched.role "one" warps 1 ping_pong 0 {
    sched.prologue {
      sched.order_wait %order
    }
    sched.epilogue {
      sched.order_wait %order
    }
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.order_barrier' %order: offset 12 must be a multiple of 8 bytes
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %order = sched.order_barrier offset 12
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.order_barrier' %order ends at byte 272, beyond the kernel's smem 256
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] smem 256 {
  %order = sched.order_barrier offset 256
  sched.role "one" warps 1 ping_pong 0 {
    sched.barrier
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' "one" and 'sched.role' "other" are ping-pong roles, and both use %a, which is no buffer of a channel; each needs one of its own
sched.kernel @k inputs 0 grid [4, 1, 1] persistent 2 block [64, 1, 1] {
  %a = sched.alloc : !sched.shared<8x16xf32, (8,16):(16,1)>
  %order = sched.order_barrier
  sched.role "one" warps 1 ping_pong 0 {
    sched.prologue {
      sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
    }
  }
  sched.role "other" warps 1 ping_pong 1 {
    sched.prologue {
      sched.fill %a with 0.0 : !sched.shared<8x16xf32, (8,16):(16,1)>
    }
  }
}
