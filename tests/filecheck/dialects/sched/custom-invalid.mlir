// RUN: mg-opt --split-input-file --verify-diagnostics %s | filecheck %s

// CHECK: 'sched.custom' of %a is dealt to 64 threads, but 32 run it
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 128 {
  %a = sched.alloc offset 0 : !sched.shared<8xf32, (8):(1)>
  sched.prologue {
    sched.custom "step" threads 64(%a) {
    ^bb0(%thread: index, %x: !te.buffer<8xf32, shared>):
    } : !sched.shared<8xf32, (8):(1)>
  }
}

// -----

// CHECK: 'sched.custom' of %a: %a has 8 elements of f32, but its region takes !te.buffer<4xf32, shared> for it
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 128 {
  %a = sched.alloc offset 0 : !sched.shared<8xf32, (8):(1)>
  sched.prologue {
    sched.custom "step" threads 32(%a) {
    ^bb0(%thread: index, %x: !te.buffer<4xf32, shared>):
    } : !sched.shared<8xf32, (8):(1)>
  }
}

// -----

// CHECK: 'te.barrier' cannot stand in a 'sched.custom'
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 128 {
  %a = sched.alloc offset 0 : !sched.shared<8xf32, (8):(1)>
  sched.prologue {
    sched.custom "step" threads 32(%a) {
    ^bb0(%thread: index, %x: !te.buffer<8xf32, shared>):
      te.barrier block
    } : !sched.shared<8xf32, (8):(1)>
  }
}

// -----

// CHECK: 'sched.custom' of %a: a 'te.new' in it is a thread's own, in registers
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 128 {
  %a = sched.alloc offset 0 : !sched.shared<8xf32, (8):(1)>
  sched.prologue {
    sched.custom "step" threads 32(%a) {
    ^bb0(%thread: index, %x: !te.buffer<8xf32, shared>):
      %t = te.new : !te.buffer<4xf32, shared>
    } : !sched.shared<8xf32, (8):(1)>
  }
}
