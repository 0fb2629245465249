// 'tb.exp' %e uses %s before it is computed
func.func @fuzzed(%signed: tensor<5x9xf16>) -> tensor<5x9xf16> {
  %0 = kn.customized %signed grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%a: tensor<5x9xf16>):
    %2 = tb.input %a imap [-1, -1, -1] : tensor<5x9xf16> -> !tb.stensor<5x9xf16>
    %e = tb.exp %s : !tb.stensor<5x9xf16> -> !tb.stensor<5x9xf16>
    %s = tb.square %2 : !tb.stensor<5x9xf16> -> !tb.stensor<5x9xf16>
    %r = tb.forloop_accum none %e : !tb.stensor<5x9xf16> -> !tb.stensor<5x9xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<5x9xf16> -> tensor<5x9xf16>
  } : (tensor<5x9xf16>) -> tensor<5x9xf16>
  func.return %0 : tensor<5x9xf16>
}
