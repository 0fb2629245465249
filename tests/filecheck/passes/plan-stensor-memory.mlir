// RUN: mg-opt --plan-stensor-memory %s | filecheck %s
// What is in place is no race.
// RUN: mg-opt --plan-stensor-memory --check-hazards %s -o /dev/null

// %a is last read before the second barrier, by other threads than those that write %c before it,
// which must not take its bytes; %d, written after it, does.
// CHECK-LABEL: sched.kernel @barriers
// CHECK-SAME: smem 768
// CHECK: %a = sched.alloc offset 0 :
// CHECK: %b = sched.alloc offset 256 :
// CHECK: %c = sched.alloc offset 512 :
// CHECK: %d = sched.alloc offset 0 :
sched.kernel @barriers inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x16xf16, (8,16):(16,1)>, %o: !sched.global<8x16xf16, (8,16):(16,1)>):
  %a = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<8x16xf16, (8,16):(1,8)>
  %c = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %d = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.epilogue {
    sched.copy %x to %a by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.map exp %a to %b by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(1,8)>
    sched.copy %x to %c by <16, vector 8, order [1, 0]> : !sched.global<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.map add %b, %c to %d by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(1,8)>, !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.copy %d to %o by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.global<8x16xf16, (8,16):(16,1)>
  }
}

// %c takes the bytes of %a before any barrier: each thread writes where it alone has read, in an operator before.
// CHECK-LABEL: sched.kernel @read_before
// CHECK-SAME: smem 512
// CHECK: %a = sched.alloc offset 0 :
// CHECK: %b = sched.alloc offset 256 :
// CHECK: %c = sched.alloc offset 0 :
sched.kernel @read_before inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x16xf16, (8,16):(16,1)>, %o: !sched.global<8x16xf16, (8,16):(16,1)>):
  %a = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<8x16xf16, (8,16):(1,8)>
  %c = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.epilogue {
    sched.copy %x to %a by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.map exp %a to %b by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(1,8)>
    sched.map exp %b to %c by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(1,8)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.copy %c to %o by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.global<8x16xf16, (8,16):(16,1)>
  }
}

// %b takes the bytes of %a before any barrier: each thread writes where it alone has read.  %c cannot:
// its elements lie elsewhere.
// CHECK-LABEL: sched.kernel @in_place
// CHECK-SAME: smem 512
// CHECK: %a = sched.alloc offset 0 :
// CHECK: %b = sched.alloc offset 0 :
// CHECK: %c = sched.alloc offset 256 :
// CHECK: sched.memory_certificate = {bound = 512 : i64, method = "first fit, 1 in place", optimal = true, peak = 512 : i64}
sched.kernel @in_place inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x16xf16, (8,16):(16,1)>, %o: !sched.global<8x16xf16, (8,16):(16,1)>):
  %a = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.alloc : !sched.shared<8x16xf16, (8,16):(1,8)>
  sched.epilogue {
    sched.copy %x to %a by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.barrier
    sched.map exp %a to %b by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.map exp %b to %c by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(1,8)>
    sched.barrier
    sched.copy %c to %o by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(1,8)> to !sched.global<8x16xf16, (8,16):(16,1)>
  }
}
