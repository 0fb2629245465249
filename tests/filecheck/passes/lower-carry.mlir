// RUN: mg-opt --split-input-file --resolve-layout --lower-threadblock="arch=sm_80" --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// A state lies in one buffer, which begins with a number and changes when all that reads it has.
// One that becomes another's next state is read before it changes, wherever it is written.
// CHECK-LABEL: sched.kernel @delays_custom0
// CHECK:       %one = sched.alloc : !sched.shared<8x32xf32
// CHECK:       %two = sched.alloc : !sched.shared<8x32xf32
// CHECK:       sched.prologue {
// CHECK-NEXT:    sched.fill %one with 0.000000e+00
// CHECK-NEXT:    sched.fill %two with 1.000000e+00
// CHECK:       sched.forloop 4 {
// CHECK:         sched.map add %x, %two to %y
// CHECK:         sched.map identity %one to %two
// CHECK-NEXT:    sched.map identity %x to %one
// CHECK-NEXT:  }
// CHECK:       sched.epilogue {
// CHECK-NEXT:    sched.copy %two to
func.func @delays(%x: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<8x32xf32>) {
  %o, %l = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<32x32xf32>):
    %x_1 = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<32x32xf32> -> !tb.stensor<8x32xf32>
    %one = tb.carried : !tb.stensor<8x32xf32>
    %two = tb.carried from 1.0 : !tb.stensor<8x32xf32>
    %a = tb.carry %x_1 to %one : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    %b = tb.carry %one to %two : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    %y = tb.add %x_1, %two : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    tb.output %y omap [-1, -1, -1] fordim 0 : !tb.stensor<8x32xf32> -> tensor<32x32xf32>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<8x32xf32> -> tensor<8x32xf32>
  } : (tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<8x32xf32>)
  func.return %o, %l : tensor<32x32xf32>, tensor<8x32xf32>
}

// -----

// What is computed element by element of a state and of other tiles replaces the state in its place.
// CHECK-LABEL: sched.kernel @in_place_custom0
// CHECK:       %s = sched.alloc : !sched.shared<8x32xf32
// CHECK:         sched.copy %s to %o_tile
// CHECK:         sched.map add %s, %x to %s then [exp]
// CHECK-NEXT:  }
func.func @in_place(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<32x32xf32>):
    %x_1 = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<32x32xf32> -> !tb.stensor<8x32xf32>
    %s = tb.carried : !tb.stensor<8x32xf32>
    %n = tb.add %s, %x_1 then [exp] : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    %l = tb.carry %n to %s : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    tb.output %s omap [-1, -1, -1] fordim 0 : !tb.stensor<8x32xf32> -> tensor<32x32xf32>
  } : (tensor<32x32xf32>) -> tensor<32x32xf32>
  func.return %o : tensor<32x32xf32>
}

// -----

// CHECK: --lower-threadblock: 'tb.carry' %a and others let states change places, so that none of them can be written first; compute one of them anew, as with 'tb.mul_scalar' by 1
func.func @swap() -> tensor<8x32xf32> {
  %o = kn.customized grid [1, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0:
    %one = tb.carried : !tb.stensor<8x32xf32>
    %two = tb.carried from 1.0 : !tb.stensor<8x32xf32>
    %a = tb.carry %two to %one : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    %b = tb.carry %one to %two : (!tb.stensor<8x32xf32>, !tb.stensor<8x32xf32>) -> !tb.stensor<8x32xf32>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<8x32xf32> -> tensor<8x32xf32>
  } : () -> tensor<8x32xf32>
  func.return %o : tensor<8x32xf32>
}
