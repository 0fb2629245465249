// Arguments of a function are loaded before a kernel waits, where the kernel before it waits itself before it lets this
// one start: then nothing that may still run writes to them.
// RUN: mg-opt --transpile="online-softmax=true overlap-start=end" %s | filecheck %s
// RUN: mg-opt --transpile="online-softmax=true overlap-start=early" %s | filecheck %s --check-prefix EARLY

// The values come from the kernel before.  Stages that arguments fill alone are announced with them.
// CHECK:      sched.kernel @attention_custom0 inputs 1 grid
// CHECK:      sched.kernel @attention_custom1 inputs 3 constant [0, 1] grid
// CHECK:      sched.role "producer"
// CHECK-NEXT: sched.prologue {
// CHECK-NEXT:   sched.bulk_copy %dq_tile to %sq on %sq_once iteration 0
// CHECK-NEXT:   sched.publish %sq_once
// CHECK-NEXT:   sched.bulk_copy %dk_tile to %sk on %ring iteration 0
// CHECK-NEXT:   sched.publish %ring
// CHECK:        sched.grid_wait
// CHECK-NEXT:   sched.bulk_copy %dv_tile to %sv on %ring_1 iteration 0
// CHECK-NEXT:   sched.publish %ring_1
// CHECK-NOT:    %dk_tile to %sk on %ring iteration

// A kernel that lets the next one start first of all has waited for nothing.
// EARLY-NOT: constant [
func.func @attention(%q: tensor<1x128x64xf16>, %k: tensor<1x64x512xf16>, %v: tensor<1x512x64xf16>) -> tensor<1x128x64xf16> {
  %r = kn.customized %v grid [8, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%da: tensor<1x512x64xf16>):
    %sa = tb.input %da imap [1, -1, -1] : tensor<1x512x64xf16> -> !tb.stensor<1x64x64xf16>
    %ra = tb.relu %sa : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %ta = tb.forloop_accum none %ra : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    tb.output %ta omap [1, -1, -1] : !tb.stensor<1x64x64xf16> -> tensor<1x512x64xf16>
  } : (tensor<1x512x64xf16>) -> tensor<1x512x64xf16>
  %o = kn.customized %q, %k, %r grid [1, 2, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<1x128x64xf16>, %dk: tensor<1x64x512xf16>, %dv: tensor<1x512x64xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<1x128x64xf16> -> !tb.stensor<1x64x64xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<1x64x512xf16> -> !tb.stensor<1x64x64xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<1x512x64xf16> -> !tb.stensor<1x64x64xf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %scaled = tb.mul_scalar %scores by 0.0078125 : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %weights = tb.exp %scaled : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x1xf16>) -> !tb.stensor<1x64x64xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x64x64xf16> -> tensor<1x128x64xf16>
  } : (tensor<1x128x64xf16>, tensor<1x64x512xf16>, tensor<1x512x64xf16>) -> tensor<1x128x64xf16>
  func.return %o : tensor<1x128x64xf16>
}
