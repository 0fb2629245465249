// RUN: mg-opt --plan="tiles=written loads=tma" --transpile=arch=sm_90a %s | filecheck %s
// Causal attention by warp groups: the scores' scale is left to their exponentials, also where the running maximum starts
// from a number below all masked scores, here -2^100 / 0.125; and V is waited for behind the maximum, not behind the mask.

// CHECK:      sched.fill %max with -1.01412048e+31
// CHECK:      sched.forloop 4 peeled
// CHECK:        sched.mask %{{.*}} with -inf
// CHECK-NEXT:   sched.empty
// CHECK-NEXT:   sched.reduce {{.*}} combine max
// CHECK-NEXT:   sched.consume
// CHECK-NOT:    then [mul_scalar(0.125)]
// CHECK:        sched.map scaled_exp_difference(0.125)
// CHECK:        sched.map mul_scalar(0.125) %fall{{[_0-9]*}} to %fall{{[_0-9]*}} then [exp]
func.func @causal(%q: tensor<512x64xf16>, %k: tensor<64x512xf16>, %v: tensor<512x64xf16>) -> tensor<512x64xf16> {
  %o = kn.customized %q, %k, %v grid [4, 1, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%dq: tensor<512x64xf16>, %dk: tensor<64x512xf16>, %dv: tensor<512x64xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<512x64xf16> -> !tb.stensor<128x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x512xf16> -> !tb.stensor<64x128xf16>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<512x64xf16> -> !tb.stensor<128x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf32>
    %c = tb.mul_scalar %s by 0.125 : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %m = tb.mask %c with -inf where affine_set<(i, j) : (i - j >= 0)> of [512, 512] imap [0, -1, -1] fordim 1 : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %p = tb.exp %m : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf16>
    %l = tb.forloop_accum sum %p : !tb.stensor<128x128xf16> -> !tb.stensor<128x1xf32>
    %pv = tb.matmul %p, %sv : (!tb.stensor<128x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<128x64xf16>
    %a = tb.forloop_accum none %pv : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %y = tb.div %a, %l : (!tb.stensor<128x64xf16>, !tb.stensor<128x1xf32>) -> !tb.stensor<128x64xf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<128x64xf16> -> tensor<512x64xf16>
  } : (tensor<512x64xf16>, tensor<64x512xf16>, tensor<512x64xf16>) -> tensor<512x64xf16>
  func.return %o : tensor<512x64xf16>
}
