// A schedule in which several warps share a row: each adds up, or compares, what it holds of it.
// RUN: mg-opt --plan=tiles=written --transpile %s -o %t
// RUN: filecheck %s --check-prefix SCHEDULE < %t
// SCHEDULE: sched.reduce {{.*}} parts 4
// RUN: mg-check %t %s | filecheck %s
// CHECK: tested equal: no proof, since 'sched.launch' %o has no normal form; 3 random evaluations in float64{{.*}}3 random evaluations over finite fields, no difference

func.func @norm(%x: tensor<2x1024xf16>) -> tensor<2x1024xf16> {
  %o = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<2x1024xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<2x1024xf16> -> !tb.stensor<1x1024xf16>
    %n = tb.rms_norm %sx : !tb.stensor<1x1024xf16> -> !tb.stensor<1x1024xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<1x1024xf16> -> tensor<2x1024xf16>
  } : (tensor<2x1024xf16>) -> tensor<2x1024xf16>
  func.return %o : tensor<2x1024xf16>
}
