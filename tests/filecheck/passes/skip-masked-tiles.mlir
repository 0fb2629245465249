// RUN: mg-opt --split-input-file --plan="tiles=written loads=tma" --transpile %s | filecheck %s
// Blocks run the iterations alone of which a mask leaves something: with queries of 64 rows and keys of 128.

// As many as keys up to the last query of the block.
// CHECK-LABEL: sched.kernel @causal_custom0
// CHECK-SAME: grid [4, 1, 1] block [160, 1, 1] {{.*}} forloop 2 where affine_set<(d0, d1, d2, d3) : ((((d0 * 64) + (d3 * -128)) + 63) >= 0)>
func.func @causal(%q: tensor<256x64xf16>, %k: tensor<64x256xf16>, %v: tensor<256x64xf16>) -> tensor<256x64xf16> {
  %o = kn.customized %q, %k, %v grid [4, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dq: tensor<256x64xf16>, %dk: tensor<64x256xf16>, %dv: tensor<256x64xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<256x64xf16> -> !tb.stensor<64x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x128xf16>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<128x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf32>
    %m = tb.mask %s with -inf where affine_set<(i, j) : (i - j >= 0)> of [256, 256] imap [0, -1, -1] fordim 1 : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>
    %p = tb.exp %m : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf16>
    %l = tb.forloop_accum sum %p : !tb.stensor<64x128xf16> -> !tb.stensor<64x1xf32>
    %pv = tb.matmul %p, %sv : (!tb.stensor<64x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<64x64xf16>
    %a = tb.forloop_accum none %pv : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %y = tb.div %a, %l : (!tb.stensor<64x64xf16>, !tb.stensor<64x1xf32>) -> !tb.stensor<64x64xf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<64x64xf16> -> tensor<256x64xf16>
  } : (tensor<256x64xf16>, tensor<64x256xf16>, tensor<256x64xf16>) -> tensor<256x64xf16>
  func.return %o : tensor<256x64xf16>
}

// -----

// A mask of ones instead of zeros adds to the sum: all iterations count.
// CHECK-LABEL: sched.kernel @adds_custom0
// CHECK-SAME: forloop 4 plan
func.func @adds(%x: tensor<64x256xf32>) -> tensor<64x1xf32> {
  %o = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%d: tensor<64x256xf32>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<64x256xf32> -> !tb.stensor<16x64xf32>
    %m = tb.mask %s with 1.0 where affine_set<(i, j) : (i - j >= 0)> of [64, 256] imap [0, -1, -1] fordim 1 : !tb.stensor<16x64xf32> -> !tb.stensor<16x64xf32>
    %l = tb.forloop_accum sum %m : !tb.stensor<16x64xf32> -> !tb.stensor<16x1xf32>
    tb.output %l omap [0, -1, -1] : !tb.stensor<16x1xf32> -> tensor<64x1xf32>
  } : (tensor<64x256xf32>) -> tensor<64x1xf32>
  func.return %o : tensor<64x1xf32>
}
