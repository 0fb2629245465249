// The host code declared the pointer of %signed twice in one scope.
func.func @fuzzed(%signed: tensor<5x9xf16>) -> (tensor<5x9xf16>, tensor<5x9xf16>) {
  %0 = kn.mul %signed, %signed : (tensor<5x9xf16>, tensor<5x9xf16>) -> tensor<5x9xf16>
  %1 = kn.customized %signed, %signed grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%a: tensor<5x9xf16>, %b: tensor<5x9xf16>):
    %2 = tb.input %a imap [-1, -1, -1] : tensor<5x9xf16> -> !tb.stensor<5x9xf16>
    %3 = tb.input %b imap [-1, -1, -1] : tensor<5x9xf16> -> !tb.stensor<5x9xf16>
    %4 = tb.mul %2, %3 : (!tb.stensor<5x9xf16>, !tb.stensor<5x9xf16>) -> !tb.stensor<5x9xf16>
    %5 = tb.forloop_accum none %4 : !tb.stensor<5x9xf16> -> !tb.stensor<5x9xf16>
    tb.output %5 omap [-1, -1, -1] : !tb.stensor<5x9xf16> -> tensor<5x9xf16>
  } : (tensor<5x9xf16>, tensor<5x9xf16>) -> tensor<5x9xf16>
  func.return %0, %1 : tensor<5x9xf16>, tensor<5x9xf16>
}
