sched.kernel @bulk inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>):
  %s = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  sched.prologue {
    sched.bulk_copy %x to %s : !sched.global<16x64xf16, (16,64):(64,1)> to !sched.shared<16x64xf16, (16,64):(64,1)>
  }
}
