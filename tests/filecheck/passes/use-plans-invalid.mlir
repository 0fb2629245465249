// A database that is not there is said; one that does not know a kernel leaves it as it is.
// RUN: not mg-opt --use-plans="database=%t-none" %s 2>&1 | filecheck %s --check-prefix NONE
// RUN: echo "{}" > %t
// RUN: mg-opt --use-plans="database=%t" %s 2>&1 | filecheck %s

// A GPU of which nothing is known is said, with those that are.
// RUN: mg-opt --use-plans="gpu=h20o" %s 2>&1 | filecheck %s --check-prefix TYPO
// TYPO: --use-plans: note: there are no measured plans for gpu=h20o; there are some for h200

// NONE: error: --use-plans: there is no file {{.*}}-none; write database=FILE with one that mg-tune wrote

// CHECK: line 1, is ignored: it was edited: its check is not that of its contents; mg-tune makes it anew
// CHECK: kn.customized %x grid [8, 1, 1] block [128, 1, 1] forloop 1 {
func.func @exponential(%x: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %y = kn.customized %x grid [8, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<8x64xf16>
    %e = tb.exp %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<8x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %y : tensor<64x64xf16>
}
