// A state that only the threads which change it read is a tile in registers that the loop carries.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile="arch=sm_80" %s | filecheck %s --check-prefix REGISTERS
// REGISTERS:     sched.forloop 4 carrying %before_1
// REGISTERS-NOT:   sched.barrier
// REGISTERS:       %before_5 = sched.map add %before_4, %total_1 to %before_4

// In shared memory it may change when all threads have read it, and be read when it has changed.
// RUN: mg-opt --plan="tiles=written loads=cp_async" %unpromoted %s -o %t.mlir
// RUN: sed '/sched.barrier/{N;/sched.commit/{s/.*\n//}}' %t.mlir | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix READ
// RUN: sed '/sched.barrier/{N;/to %before /{s/.*\n//}}' %t.mlir | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix WRITTEN
// RUN: mg-opt --check-hazards %t.mlir | filecheck %s --check-prefix RACES-NOT

// READ: read after write: 'sched.map' {{.*}} of the loop, iteration 1) reads %before {{.*}} 'sched.map' of %before
// WRITTEN: write after read: 'sched.map' of %before {{.*}} writes %before at byte
// RACES-NOT: sched.map add %before, %total to %before
func.func @sums_so_far(%x: tensor<16x256xf32>) -> tensor<16x256xf32> {
  %y = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x256xf32>):
    %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf32> -> !tb.stensor<16x64xf32>
    %before = tb.carried : !tb.stensor<16x1xf32>
    %sums = tb.add %t, %before : (!tb.stensor<16x64xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf32>
    %total = tb.reduction %t dim 1 : !tb.stensor<16x64xf32> -> !tb.stensor<16x1xf32>
    %next = tb.add %before, %total : (!tb.stensor<16x1xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x1xf32>
    %last = tb.carry %next to %before : (!tb.stensor<16x1xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x1xf32>
    tb.output %sums omap [-1, -1, -1] fordim 1 : !tb.stensor<16x64xf32> -> tensor<16x256xf32>
  } : (tensor<16x256xf32>) -> tensor<16x256xf32>
  func.return %y : tensor<16x256xf32>
}
