// Sums that take more registers than threads have: only warp groups could get more, and sm_100a has no products of theirs.
// RUN: mg-opt --plan=tiles=written --transpile=arch=sm_100a %s | filecheck %s
// CHECK: sched.mma %sx, %sw at [0, 0]
// CHECK-NOT: sched.warpgroup_mma
func.func @many(%x: tensor<384x320xf16>, %w: tensor<320x320xf16>) -> tensor<384x320xf16> {
  %o = kn.customized %x, %w grid [2, 2, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%dx: tensor<384x320xf16>, %dw: tensor<320x320xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<384x320xf16> -> !tb.stensor<192x64xf16>
    %sw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<320x320xf16> -> !tb.stensor<64x160xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<192x64xf16>, !tb.stensor<64x160xf16>) -> !tb.stensor<192x160xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<192x160xf32> -> !tb.stensor<192x160xf32>
    %s = tb.reduction %a dim 1 : !tb.stensor<192x160xf32> -> !tb.stensor<192x1xf32>
    %d = tb.mul %a, %s : (!tb.stensor<192x160xf32>, !tb.stensor<192x1xf32>) -> !tb.stensor<192x160xf32>
    %e = tb.relu %d : !tb.stensor<192x160xf32> -> !tb.stensor<192x160xf16>
    tb.output %e omap [0, 1, -1] : !tb.stensor<192x160xf16> -> tensor<384x320xf16>
  } : (tensor<384x320xf16>, tensor<320x320xf16>) -> tensor<384x320xf16>
  func.return %o : tensor<384x320xf16>
}
