// RUN: mg-opt --plan=tiles=written --transpile=arch=sm_90a %s | filecheck %s

// Sixty-four rows a block and one warp group: the operands of its products take no registers, so two blocks share a
// multiprocessor, and their rings have the stages that both have room for; V one more, which its product keeps an iteration longer.

// CHECK: sched.kernel @attention_custom0 inputs 3 grid [16, 16, 1] {{.*}} block [256, 1, 1] smem {{[0-9]+}} resident 2
// CHECK: %sk = sched.alloc stages 2
// CHECK: %sv = sched.alloc stages 3
// CHECK: sched.role "consumers" warps 4 registers 216
func.func @attention(%q: tensor<16x1024x64xf16>, %k: tensor<16x64x1024xf16>, %v: tensor<16x1024x64xf16>) -> tensor<16x1024x64xf16> {
  %o = kn.customized %q, %k, %v grid [16, 16, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<16x1024x64xf16>, %dk: tensor<16x64x1024xf16>, %dv: tensor<16x1024x64xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<16x1024x64xf16> -> !tb.stensor<1x64x64xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<16x64x1024xf16> -> !tb.stensor<1x64x128xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<16x1024x64xf16> -> !tb.stensor<1x128x64xf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x128xf16>) -> !tb.stensor<1x64x128xf16>
    %weights = tb.exp %scores : !tb.stensor<1x64x128xf16> -> !tb.stensor<1x64x128xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x64x128xf16>, !tb.stensor<1x128x64xf16>) -> !tb.stensor<1x64x64xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<1x64x128xf16> -> !tb.stensor<1x64x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x1xf16>) -> !tb.stensor<1x64x64xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x64x64xf16> -> tensor<16x1024x64xf16>
  } : (tensor<16x1024x64xf16>, tensor<16x64x1024xf16>, tensor<16x1024x64xf16>) -> tensor<16x1024x64xf16>
  func.return %o : tensor<16x1024x64xf16>
}
