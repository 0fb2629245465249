// Normed queries and values: the norm of the queries is taken once, before the loop; the values are
// multiplied as they came, and the norms of their rows scale the columns of the left operand.
// RUN: mg-opt --plan="tiles=written loads=cp_async online-softmax=false" --transpile %s | filecheck %s

// CHECK:      sched.prologue {
// CHECK:        sched.map square %sq{{[_0-9]*}} to
// CHECK:        sched.reduce
// CHECK:      }
// CHECK:      sched.forloop 4 carrying
// CHECK-NOT:    %sq to
// CHECK:        sched.reduce %{{.*}} to %{{.*}} then [mul_scalar(0.015625), sqrt, reciprocal]
// CHECK:        %[[C:[a-z0-9_]+]] = sched.load %nv to
// CHECK-NEXT:   %[[P:[a-z0-9_]+]] = sched.map mul %weights{{[_0-9]*}}, %[[C]] to
// CHECK-NEXT:   sched.mma %[[P]], %sv to %{{numerator[_0-9]*}} ldmatrix [false, true]
// CHECK:      sched.epilogue {
func.func @normed(%q: tensor<64x64xf16>, %k: tensor<64x256xf16>, %v: tensor<256x64xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %q, %k, %v grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dq: tensor<64x64xf16>, %dk: tensor<64x256xf16>, %dv: tensor<256x64xf16>):
    %sq = tb.input %dq imap [-1, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x64xf16>
    %nq = tb.rms_norm %sq : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %nv = tb.rms_norm %sv : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %scores = tb.matmul %nq, %sk : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %weights = tb.exp %scores : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %values = tb.matmul %weights, %nv : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %numerator = tb.forloop_accum none %values : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %denominator = tb.forloop_accum sum %weights : !tb.stensor<64x64xf16> -> !tb.stensor<64x1xf16>
    %mean = tb.div %numerator, %denominator : (!tb.stensor<64x64xf16>, !tb.stensor<64x1xf16>) -> !tb.stensor<64x64xf16>
    tb.output %mean omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x256xf16>, tensor<256x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
