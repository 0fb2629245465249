// Values of a loop that all come before it are waited for behind the scores of their keys.
// RUN: mg-opt --transpile="arch=sm_90a" %s | filecheck %s

// CHECK:      sched.grid_wait
// CHECK-NEXT: sched.copy async %dq_tile to %sq
// CHECK-NEXT: sched.copy async %dk_tile to %sk {{.*}} iteration 0
// CHECK-NEXT: sched.commit
// CHECK-NEXT: sched.copy async %dv_tile to %sv {{.*}} iteration 0
// CHECK-NEXT: sched.commit
// CHECK-NEXT: sched.copy async %dk_tile to %sk {{.*}} iteration 1
// CHECK-NEXT: sched.commit
// CHECK-NEXT: sched.copy async %dv_tile to %sv {{.*}} iteration 1
// CHECK-NEXT: sched.commit
// CHECK:      sched.forloop 2
// CHECK:      sched.wait pending 3
// CHECK-NEXT: sched.barrier
// CHECK-NEXT: sched.commit
// CHECK-NEXT: sched.commit
// CHECK:      sched.mma %sq, %sk
// CHECK:      sched.wait pending 4
// CHECK-NEXT: sched.barrier
// CHECK:      sched.mma %weight, %sv
func.func @attention(%q: tensor<4x64xf16>, %k: tensor<64x128xf16>, %v: tensor<128x64xf16>) -> tensor<4x64xf16> {
  %o = kn.customized %q, %k, %v grid [1, 1, 1] block [128, 1, 1] forloop 2 plan <tiles = written, loads = cp_async, stages = [2]> {
  ^bb0(%dq: tensor<4x64xf16>, %dk: tensor<64x128xf16>, %dv: tensor<128x64xf16>):
    %sq = tb.input %dq imap [-1, -1, -1] : tensor<4x64xf16> -> !tb.stensor<4x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<4x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<4x64xf16>
    %max, %fall = tb.reduction_max %s dim 1 : !tb.stensor<4x64xf16> -> (!tb.stensor<4x1xf32>, !tb.stensor<4x1xf32>)
    %below = tb.sub %s, %max : (!tb.stensor<4x64xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xf32>
    %weight = tb.exp %below : !tb.stensor<4x64xf32> -> !tb.stensor<4x64xf16>
    %rescale = tb.exp %fall : !tb.stensor<4x1xf32> -> !tb.stensor<4x1xf32>
    %sum = tb.forloop_accum_rescale sum %weight by %rescale : (!tb.stensor<4x64xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x1xf32>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<128x64xf16> -> !tb.stensor<64x64xf16>
    %p = tb.matmul %weight, %sv : (!tb.stensor<4x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<4x64xf16>
    %a = tb.forloop_accum_rescale none %p by %rescale : (!tb.stensor<4x64xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xf32>
    %d = tb.div %a, %sum : (!tb.stensor<4x64xf32>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xf16>
    tb.output %d omap [-1, -1, -1] : !tb.stensor<4x64xf16> -> tensor<4x64xf16>
  } : (tensor<4x64xf16>, tensor<64x128xf16>, tensor<128x64xf16>) -> tensor<4x64xf16>
  func.return %o : tensor<4x64xf16>
}
