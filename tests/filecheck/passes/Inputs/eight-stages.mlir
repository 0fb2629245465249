sched.kernel @stages inputs 1 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%x: !sched.global<1024x128xf16, (1024,128):(128,1)>, %o: !sched.global<128x128xf16, (128,128):(128,1)>):
  %t = sched.local_tile %x map [-1, -1, -1] fordim 0 : !sched.global<1024x128xf16, (1024,128):(128,1)> -> !sched.global<128x128xf16, (128,128):(128,1)>
  %a = sched.alloc stages 8 : !sched.shared<128x128xf16, (128,128):(128,1)>
  sched.prologue {
    sched.copy async %t to %a by <128, vector 8, order [1, 0]> : !sched.global<128x128xf16, (128,128):(128,1)> to !sched.shared<128x128xf16, (128,128):(128,1)>
    sched.commit
  }
  sched.forloop 8 {
    sched.wait pending 0
    sched.barrier
    sched.copy %a to %o by <128, vector 8, order [1, 0]> : !sched.shared<128x128xf16, (128,128):(128,1)> to !sched.global<128x128xf16, (128,128):(128,1)>
  }
}
