// Whoever asks for the best partition is told where it is the present one, and why.
// RUN: mg-opt --plan -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --plan="block=128" -o %t %s 2>&1 | filecheck %s --check-prefix ASKED --allow-empty

// ASKED-NOT: note

// CHECK: --plan: note: 'kn.customized' %spread stays as it is: it is estimated to take {{[0-9.]+}} µs on h200, and no other partition that its operators and its plan allow less than 97% of that
// CHECK-NEXT: --plan: note: 'kn.customized' %total stays as it is: no dimension that all its results have and no operator sums over is left to cut
// CHECK-NOT: note
func.func @kept(%x: tensor<2112x512xf16>, %y: tensor<16x16xf16>) -> (tensor<2112x512xf16>, tensor<1x1xf16>) {
  %spread = kn.customized %x grid [704, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<2112x512xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<3x512xf16>
    %e = tb.exp %sx : !tb.stensor<3x512xf16> -> !tb.stensor<3x512xf16>
    %s = tb.reduction %e dim 1 : !tb.stensor<3x512xf16> -> !tb.stensor<3x1xf16>
    %n = tb.div %e, %s : (!tb.stensor<3x512xf16>, !tb.stensor<3x1xf16>) -> !tb.stensor<3x512xf16>
    %a = tb.forloop_accum none %n : !tb.stensor<3x512xf16> -> !tb.stensor<3x512xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<3x512xf16> -> tensor<2112x512xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x512xf16>
  %total = kn.customized %y grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dy: tensor<16x16xf16>):
    %sy = tb.input %dy imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %r = tb.reduction %sy dim 1 : !tb.stensor<16x16xf16> -> !tb.stensor<16x1xf16>
    %s = tb.reduction %r dim 0 : !tb.stensor<16x1xf16> -> !tb.stensor<1x1xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<1x1xf16> -> !tb.stensor<1x1xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<1x1xf16> -> tensor<1x1xf16>
  } : (tensor<16x16xf16>) -> tensor<1x1xf16>
  func.return %spread, %total : tensor<2112x512xf16>, tensor<1x1xf16>
}
