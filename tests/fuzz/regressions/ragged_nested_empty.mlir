// Three axes on one dimension: the last of six slices is empty, and a norm of what a block has.
func.func @fuzzed(%positive: tensor<10x9xf32>) -> (tensor<10x9xf16>, tensor<10x1xf16>) {
  %o:2 = kn.customized %positive grid [3, 1, 2] block [33, 1, 1] forloop 2 {
  ^bb0(%d: tensor<10x9xf32>):
    %s = tb.input %d imap [0, -1, 0] fordim 1 : tensor<10x9xf32> -> !tb.stensor<2x5xf32>
    %q = tb.div %s, %s : (!tb.stensor<2x5xf32>, !tb.stensor<2x5xf32>) -> !tb.stensor<2x5xf16>
    tb.output %q omap [0, -1, 0] fordim 1 : !tb.stensor<2x5xf16> -> tensor<10x9xf16>
    %r = tb.forloop_accum rms %q : !tb.stensor<2x5xf16> -> !tb.stensor<2x1xf16>
    tb.output %r omap [0, -1, 0] : !tb.stensor<2x1xf16> -> tensor<10x1xf16>
  } : (tensor<10x9xf32>) -> (tensor<10x9xf16>, tensor<10x1xf16>)
  func.return %o#0, %o#1 : tensor<10x9xf16>, tensor<10x1xf16>
}
