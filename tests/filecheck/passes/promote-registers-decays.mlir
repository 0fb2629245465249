// RUN: mg-opt --transpile="arch=sm_90a" %s | filecheck %s
// Decays that are made of numbers of rows and columns are made where threads hold the scores that they scale, behind
// their mask; and the product that is added to the result has the arrangement of the others.

// CHECK-NOT:   sched.alloc {{.*}}x64x64xf32
// CHECK:       sched.forloop 1
// CHECK:         %[[SCORES:.*]] = sched.mma %sq, %sk
// CHECK:         %[[ROWS:.*]] = sched.load %sg to
// CHECK:         %[[COLUMNS:.*]] = sched.load %sh to
// CHECK:         %[[BETWEEN:.*]] = sched.map sub %[[ROWS]], %[[COLUMNS]] to
// CHECK:         %[[BEFORE:.*]] = sched.mma %sq, %ss
// CHECK:         %[[MASKED:.*]] = sched.mask %[[BETWEEN]] to
// CHECK:         %[[DECAYS:.*]] = sched.map identity %[[MASKED]] to %{{.*}} then [exp]
// CHECK:         sched.map mul %{{.*}}, %[[DECAYS]] to
// CHECK-NOT:     sched.barrier
// CHECK:         %[[INSIDE:.*]] = sched.mma %{{.*}}, %sv
// CHECK:         sched.map add %[[INSIDE]]
func.func @decayed(%q: tensor<4x64x64xbf16>, %k: tensor<4x64x64xbf16>, %g: tensor<4x64x1xf32>, %h: tensor<4x1x64xf32>, %v: tensor<4x64x64xbf16>, %s: tensor<4x64x64xbf16>) -> tensor<4x64x64xbf16> {
  %o = kn.customized %q, %k, %g, %h, %v, %s grid [4, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dq: tensor<4x64x64xbf16>, %dk: tensor<4x64x64xbf16>, %dg: tensor<4x64x1xf32>, %dh: tensor<4x1x64xf32>, %dv: tensor<4x64x64xbf16>, %ds: tensor<4x64x64xbf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<4x64x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %sk = tb.input %dk imap [0, -1, -1] : tensor<4x64x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %sg = tb.input %dg imap [0, -1, -1] : tensor<4x64x1xf32> -> !tb.stensor<1x64x1xf32>
    %sh = tb.input %dh imap [0, -1, -1] : tensor<4x1x64xf32> -> !tb.stensor<1x1x64xf32>
    %between = tb.sub %sg, %sh : (!tb.stensor<1x64x1xf32>, !tb.stensor<1x1x64xf32>) -> !tb.stensor<1x64x64xf32>
    %below = tb.mask %between with -inf where affine_set<(d0, d1, d2) : (d1 - d2 >= 0)> of [4, 64, 64] imap [0, -1, -1] : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %decays = tb.exp %below : !tb.stensor<1x64x64xf32> -> !tb.stensor<1x64x64xf32>
    %p = tb.mul %scores, %decays : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xbf16>
    %sv = tb.input %dv imap [0, -1, -1] : tensor<4x64x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %inside = tb.matmul %p, %sv : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %ss = tb.input %ds imap [0, -1, -1] : tensor<4x64x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %before = tb.matmul %sq, %ss : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %up = tb.exp %sg : !tb.stensor<1x64x1xf32> -> !tb.stensor<1x64x1xf32>
    %later = tb.mul %before, %up : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x64xf32>
    %y = tb.add %inside, %later : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x64xf32>) -> !tb.stensor<1x64x64xbf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<1x64x64xbf16> -> tensor<4x64x64xbf16>
  } : (tensor<4x64x64xbf16>, tensor<4x64x64xbf16>, tensor<4x64x1xf32>, tensor<4x1x64xf32>, tensor<4x64x64xbf16>, tensor<4x64x64xbf16>) -> tensor<4x64x64xbf16>
  func.return %o : tensor<4x64x64xbf16>
}
