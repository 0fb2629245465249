// One schedule that is right, and what is said when one thing of it is changed.

// RUN: mg-opt --check-hazards %s | filecheck %s --check-prefix RIGHT
// RIGHT: sched.kernel @exponentials

// RUN: mg-opt --print-hazards %s 2>&1 | filecheck %s --check-prefix PRINT
// PRINT: 'sched.kernel' @exponentials has no hazards
// PRINT-NEXT: remark: 'sched.barrier' (operator 1 of the epilogue) is not needed: without it there are no hazards either
// PRINT-NEXT: builtin.module

// RUN: sed '/first barrier/d' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix BARRIER
// BARRIER: mg-opt: {{.*}}:{{[0-9]+}}:{{[0-9]+}}: error: --check-hazards: 'sched.kernel' @exponentials has 3 hazards:
// BARRIER-NEXT: read after write: 'sched.map' of %a (operator 4 of the loop, iteration 0) reads %a at byte 8 of shared memory in thread 1; 'sched.copy' of %t (operator 1 of the prologue) writes that byte, of %a, in thread 0, and no barrier orders them
// BARRIER-NEXT: write after read: 'sched.copy' of %t (operator 2 of the loop, iteration 1) writes %a at byte 8 of shared memory in thread 0; 'sched.map' of %a (operator 4 of the loop, iteration 0) reads that byte, of %a, in thread 1, and no barrier orders them
// BARRIER-NEXT: read after write: 'sched.map' of %a (operator 4 of the loop, iteration 1) reads %a at byte 1032

// The printing pass says the same, goes on, and leaves the schedule as it is.
// RUN: mg-opt --print-hazards %t.mlir 2>&1 | filecheck %s --check-prefix GOES-ON
// GOES-ON: 'sched.kernel' @exponentials has 3 hazards:
// GOES-ON: builtin.module

// RUN: sed 's/wait pending 0/wait pending 1/' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix WAIT
// WAIT: copy in flight: 'sched.map' of %a (operator 5 of the loop, iteration 0) reads %a at byte 0 of shared memory in thread 0; 'sched.copy' of %t (operator 1 of the prologue), asynchronous, may still be writing that byte, of %a, for thread 0: no 'sched.wait' between them covers the copy's group

// RUN: sed '/sched.commit/d' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix COMMIT
// COMMIT: no 'sched.commit' between them closes the copy's group

// RUN: sed 's/offset 2048/offset 1024/' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix OVERLAP
// OVERLAP: overwritten value: 'sched.map' of %a (operator 5 of the loop, iteration 1) reads %a at byte 1024 of shared memory in thread 0; 'sched.copy' of %t (operator 3 of the loop, iteration 0) wrote it, but since then 'sched.map' of %a (operator 5 of the loop, iteration 0) has written %b there, in thread 0: the two buffers overlap

// RUN: sed 's/iteration 0 /iteration 1 /' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix NEVER
// NEVER: has 1 hazard:
// NEVER-NEXT: never written: 'sched.map' of %a (operator 5 of the loop, iteration 0) reads %a at byte 0 of shared memory in thread 0, to which nothing of %a has been written

// RUN: sed 's/ahead 1 //' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix AHEAD
// AHEAD: copy in flight: 'sched.map' of %a (operator 5 of the loop, iteration 0) reads %a

// RUN: sed 's/offset 2048//' %s > %t.mlir
// RUN: not mg-opt --check-hazards %t.mlir 2>&1 | filecheck %s --check-prefix UNPLANNED
// UNPLANNED: mg-opt: {{.*}}:{{[0-9]+}}:{{[0-9]+}}: error: --check-hazards: 'sched.kernel' @exponentials: %b has no offset in shared memory; run --plan-stensor-memory first

// --transpile ends with the check; it can be left out.
// RUN: mg-opt --plan=tiles=written --transpile=check-hazards=false %examples/lora.mlir | filecheck %s --check-prefix LORA
// LORA: sched.kernel @lora_custom0

sched.kernel @exponentials inputs 1 grid [1, 1, 1] block [64, 1, 1] smem 3072 {
^bb0(%x: !sched.global<64x32xf16, (64,32):(32,1)>, %o: !sched.global<64x8xf16, (64,8):(8,1)>):
  %a = sched.alloc stages 2 offset 0 : !sched.shared<64x8xf16, (64,8):(8,1)>
  %b = sched.alloc offset 2048 : !sched.shared<64x8xf16, (64,8):(8,1)>
  %t = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<64x32xf16, (64,32):(32,1)> -> !sched.global<64x8xf16, (64,8):(32,1)>
  sched.prologue {
    sched.copy async %t to %a by <64, vector 8, order [1, 0]> iteration 0 : !sched.global<64x8xf16, (64,8):(32,1)> to !sched.shared<64x8xf16, (64,8):(8,1)>
    sched.commit
  }
  sched.forloop 4 {
    sched.wait pending 0
    sched.barrier  // first barrier
    sched.copy async %t to %a by <64, vector 8, order [1, 0]> ahead 1 : !sched.global<64x8xf16, (64,8):(32,1)> to !sched.shared<64x8xf16, (64,8):(8,1)>
    sched.commit
    sched.map exp %a to %b by <64, vector 4, order [1, 0]> : !sched.shared<64x8xf16, (64,8):(8,1)> to !sched.shared<64x8xf16, (64,8):(8,1)>
  }
  sched.epilogue {
    sched.barrier
    sched.copy %b to %o by <64, vector 4, order [1, 0]> : !sched.shared<64x8xf16, (64,8):(8,1)> to !sched.global<64x8xf16, (64,8):(8,1)>
  }
}
