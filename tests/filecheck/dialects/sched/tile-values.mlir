// RUN: mg-opt %s --split-input-file --verify-diagnostics | filecheck %s
// A tile is used up by what writes over it; loops carry tiles in the registers that they have.

// CHECK-LABEL: sched.kernel @carried
// CHECK:      %x_1 = sched.prologue {
// CHECK-NEXT:   %x_2 = sched.fill %x with 0.000000e+00
// CHECK-NEXT:   sched.yield %x_2
// CHECK-NEXT: } -> !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
// CHECK-NEXT: %x_3 = sched.forloop 4 carrying %x_1 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> {
// CHECK-NEXT: ^bb0(%before: !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>):
// CHECK-NEXT:   %after = sched.map exp %before to %before
// CHECK-NEXT:   sched.yield %after
sched.kernel @carried inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %x_1 = sched.prologue {
    %x_2 = sched.fill %x with 0.0 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %x_2 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  } -> !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %x_3 = sched.forloop 4 carrying %x_1 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> {
  ^bb0(%before: !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>):
    %after = sched.map exp %before to %before : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %after : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
}

// -----

// CHECK: 'sched.map' %b uses %x after 'sched.map' %a has written over it; use what that returns
sched.kernel @too_late inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %y = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    %a = sched.map exp %x to %x : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    %b = sched.map exp %x to %y : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
}

// -----

// CHECK: 'sched.fill' %b uses %x after 'sched.fill' %a has written over it; use what that returns
sched.kernel @written_twice inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    %a = sched.fill %x with 0.0 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    %b = sched.fill %x with 1.0 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
}

// -----

// CHECK: 'sched.map' %a writes over %x in a loop, whose next iteration finds it overwritten; let the loop carry it
sched.kernel @not_carried inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.forloop 4 {
    %a = sched.map exp %x to %x : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
}

// -----

// CHECK: 'sched.forloop' %b carries %before but its body leaves %other, which is in other registers
sched.kernel @other_registers inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %b = sched.forloop 4 carrying %x : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> {
  ^bb0(%before: !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>):
    %y = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    %other = sched.map exp %before to %y : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %other : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
}

// -----

// CHECK: 'sched.forloop' %b yields tiles of types none, but !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> are expected
sched.kernel @nothing_yielded inputs 0 grid [1, 1, 1] block [32, 1, 1] {
  %x = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %b = sched.forloop 4 carrying %x : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> {
  ^bb0(%before: !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>):
    sched.commit
  }
}
