// A ragged product of bytes in each iteration, whose sums are added up as fp32.
builtin.module {
  func.func @fuzzed(%a: tensor<50x1xi8>, %b: tensor<2x17xi8>) -> (tensor<10x17xf16>) {
    %0 = kn.customized %a, %b grid [1, 2, 1] block [32, 1, 1] forloop 5 {
    ^bb0(%1: tensor<50x1xi8>, %2: tensor<2x17xi8>):
      %3 = tb.input %1 imap [-1, 0, 1] fordim 0 : tensor<50x1xi8> -> !tb.stensor<5x1xi8>
      %4 = tb.input %2 imap [1, 0, 0] : tensor<2x17xi8> -> !tb.stensor<1x17xi8>
      %5 = tb.matmul %3, %4 : (!tb.stensor<5x1xi8>, !tb.stensor<1x17xi8>) -> !tb.stensor<5x17xi32>
      %6 = tb.cast %5 : !tb.stensor<5x17xi32> -> !tb.stensor<5x17xf32>
      %7 = tb.forloop_accum none %6 : !tb.stensor<5x17xf32> -> !tb.stensor<5x17xf16>
      tb.output %7 omap [0, 0, -1] : !tb.stensor<5x17xf16> -> tensor<10x17xf16>
    } : (tensor<50x1xi8>, tensor<2x17xi8>) -> tensor<10x17xf16>
    func.return %0 : tensor<10x17xf16>
  }
}
