// What would make a kernel fit is tried out before it is said.
// RUN: not mg-opt --plan-stensor-memory %S/Inputs/eight-stages.mlir 2>&1 | filecheck %s --check-prefix STAGES
// RUN: not mg-opt --plan=tiles=written --transpile %s 2>&1 | filecheck %s

// STAGES: mg-opt: {{.*}}eight-stages.mlir:1:1: error: --plan-stensor-memory: 'sched.kernel' @stages needs 262144 bytes of shared memory, a block of sm_90a has 232448:
// STAGES-NEXT:   %a: 128x128 x 8 stages, 262144 bytes, live in regions 0 to 1
// STAGES-NEXT: With at most 7 stages a buffer it would need 229376 bytes and fit: schedule it again for this target.

// One stage of both tiles is too much; half of each is not.
// CHECK: 'sched.kernel' @wide_custom0 needs {{[0-9]+}} bytes of shared memory
// CHECK: %s: 128x1024 x 1 stages, 262144 bytes
// CHECK: With 2 times as many iterations ('forloop') the tiles that the loop cuts shrink, and it would need at most {{[0-9]+}} bytes and fit.
func.func @wide(%x: tensor<128x2048xf16>, %y: tensor<2048x16xf16>) -> tensor<128x16xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<128x2048xf16>, %dy: tensor<2048x16xf16>):
    %s = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<128x2048xf16> -> !tb.stensor<128x1024xf16>
    %w = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<2048x16xf16> -> !tb.stensor<1024x16xf16>
    %m = tb.matmul %s, %w then [accum] : (!tb.stensor<128x1024xf16>, !tb.stensor<1024x16xf16>) -> !tb.stensor<128x16xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<128x16xf16> -> tensor<128x16xf16>
  } : (tensor<128x2048xf16>, tensor<2048x16xf16>) -> tensor<128x16xf16>
  func.return %o : tensor<128x16xf16>
}
