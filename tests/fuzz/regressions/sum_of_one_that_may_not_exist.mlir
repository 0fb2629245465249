// --decompose-threadblock: a sum of one element that does not exist in every block was left out
builtin.module {
  func.func @fuzzed(%signed: tensor<1xf8E4M3FN, #cute.layout<(1):(1)>>, %positive: tensor<1xf16> {mugraph.constant}) -> (tensor<1xf8E4M3FN>, tensor<3xf32>) {
    %0 = kn.cast %positive : tensor<1xf16> -> tensor<1xf8E4M3FN>
    %1 = kn.customized %positive grid [3, 1, 1] block [32, 1, 1] forloop 1 {
    ^bb0(%2: tensor<1xf16>):
      %3 = tb.input %2 imap [0, 0, 0] : tensor<1xf16> -> !tb.stensor<1xf16>
      %4 = tb.reduction %3 dim 0 : !tb.stensor<1xf16> -> !tb.stensor<1xf16>
      %5 = tb.forloop_accum none %4 : !tb.stensor<1xf16> -> !tb.stensor<1xf32>
      tb.output %5 omap [0, -1, -1] : !tb.stensor<1xf32> -> tensor<3xf32>
    } : (tensor<1xf16>) -> tensor<3xf32>
    func.return %0, %1 : tensor<1xf8E4M3FN>, tensor<3xf32>
  }
}
