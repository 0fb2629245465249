// Rows that are held and weights of a softmax are multiplied by numbers of f8 as f16.
// RUN: mg-opt --f16-products %s | filecheck %s
// RUN: mg-opt --f16-products %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --transpile %s | filecheck %s --check-prefix SCHEDULE

func.func @attention(%q: tensor<4x64xbf16>, %k: tensor<64x128xf8E4M3FN>, %v: tensor<128x64xf8E4M3FN>) -> tensor<4x64xbf16> {
  %o = kn.customized %q, %k, %v grid [1, 1, 1] block [128, 1, 1] forloop 2 plan <tiles = written> {
  ^bb0(%dq: tensor<4x64xbf16>, %dk: tensor<64x128xf8E4M3FN>, %dv: tensor<128x64xf8E4M3FN>):
    %sq = tb.input %dq imap [-1, -1, -1] : tensor<4x64xbf16> -> !tb.stensor<4x64xbf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x128xf8E4M3FN> -> !tb.stensor<64x64xf8E4M3FN>
    %k16 = tb.cast %sk : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xbf16>
    %s = tb.matmul %sq, %k16 : (!tb.stensor<4x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<4x64xbf16>
    %max, %fall = tb.reduction_max %s dim 1 : !tb.stensor<4x64xbf16> -> (!tb.stensor<4x1xf32>, !tb.stensor<4x1xf32>)
    %below = tb.sub %s, %max : (!tb.stensor<4x64xbf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xf32>
    %weight = tb.exp %below : !tb.stensor<4x64xf32> -> !tb.stensor<4x64xbf16>
    %rescale = tb.exp %fall : !tb.stensor<4x1xf32> -> !tb.stensor<4x1xf32>
    %sum = tb.forloop_accum_rescale sum %weight by %rescale : (!tb.stensor<4x64xbf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x1xf32>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<128x64xf8E4M3FN> -> !tb.stensor<64x64xf8E4M3FN>
    %v16 = tb.cast %sv : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xbf16>
    %p = tb.matmul %weight, %v16 : (!tb.stensor<4x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<4x64xbf16>
    %a = tb.forloop_accum_rescale none %p by %rescale : (!tb.stensor<4x64xbf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xf32>
    %d = tb.div %a, %sum : (!tb.stensor<4x64xf32>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x64xbf16>
    tb.output %d omap [-1, -1, -1] : !tb.stensor<4x64xbf16> -> tensor<4x64xbf16>
  } : (tensor<4x64xbf16>, tensor<64x128xf8E4M3FN>, tensor<128x64xf8E4M3FN>) -> tensor<4x64xbf16>
  func.return %o : tensor<4x64xbf16>
}

// CHECK-LABEL: @attention
// CHECK:      %[[Q:.*]] = tb.input %dq
// CHECK-NEXT: %[[K:.*]] = tb.input %dk
// CHECK-NEXT: %[[SIZES:.*]] = tb.abs %[[Q]]
// CHECK-NEXT: %[[MOST:.*]], %{{.*}} = tb.reduction_max %[[SIZES]] dim 1
// CHECK-NEXT: %[[SCALE:.*]] = tb.mul_scalar %[[MOST]] by 6.10351562e-05 then [power_below] : !tb.stensor<4x1xf32>
// CHECK-NEXT: %[[HALVES:.*]] = tb.div %[[Q]], %[[SCALE]] : {{.*}} -> !tb.stensor<4x64xf16>
// CHECK-NEXT: %[[K16:.*]] = tb.cast %[[K]] : !tb.stensor<64x64xf8E4M3FN> -> !tb.stensor<64x64xf16>
// CHECK-NEXT: %[[SCORES:.*]] = tb.matmul %[[HALVES]], %[[K16]] : {{.*}} -> !tb.stensor<4x64xf32>
// CHECK-NEXT: tb.mul %[[SCORES]], %[[SCALE]] : {{.*}} -> !tb.stensor<4x64xbf16>
// CHECK:      tb.exp %below : !tb.stensor<4x64xf32> -> !tb.stensor<4x64xf16>
// CHECK:      tb.matmul %weight, %{{.*}} : (!tb.stensor<4x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<4x64xbf16>

// The rows are scaled once, before the loop.
// SCHEDULE-LABEL: sched.kernel @attention
// SCHEDULE-NOT: sched.forloop
// SCHEDULE: sched.map div %sq
// SCHEDULE: sched.forloop 2

// PROOF: proved equal
