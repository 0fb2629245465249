// RUN: mg-opt --plan-stensor-memory %s | filecheck %s
// RUN: mg-opt --plan-stensor-memory="fit=worst" %s | filecheck %s
// RUN: not mg-opt --plan-stensor-memory="fit=snug" %s 2>&1 | filecheck %s --check-prefix FIT
// FIT: mg-opt: error: --plan-stensor-memory: unknown fit 'snug'; expected first, best, last, worst or best-of-all

// %a is last read before the second barrier.  %c, written before that barrier, must not take its
// bytes, as another warp may still read them; %d, written after it, does.
// CHECK-LABEL: sched.kernel @barriers
// CHECK-SAME: smem 768
// CHECK: %a = sched.alloc offset 0 :
// CHECK: %b = sched.alloc offset 256 :
// CHECK: %c = sched.alloc offset 512 :
// CHECK: %d = sched.alloc offset 0 :
sched.kernel @barriers inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x16xf16, (8,16):(16,1)>, %o: !sched.global<8x16xf16, (8,16):(16,1)>):
  %a = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %d = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.epilogue {
    sched.copy %x to %a by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.elementwise exp %a to %b by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.elementwise exp %b to %c by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.elementwise add %b, %c to %d by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.copy %d to %o by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.global<8x16xf16, (8,16):(16,1)>
  }
}
