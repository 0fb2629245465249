// Rows of a ragged product of bytes are masked where its sums have become fp32.
builtin.module {
  func.func @fuzzed(%a: tensor<98x2xi8>, %b: tensor<3x10xi8>) -> (tensor<3x10xf16>) {
    %0 = kn.customized %a, %b grid [2, 1, 3] block [20, 1, 1] forloop 1 {
    ^bb0(%1: tensor<98x2xi8>, %2: tensor<3x10xi8>):
      %3 = tb.input %1 imap [1, 1, 0] : tensor<98x2xi8> -> !tb.stensor<33x1xi8>
      %4 = tb.input %2 imap [1, 0, 0] : tensor<3x10xi8> -> !tb.stensor<1x5xi8>
      %5 = tb.matmul %3, %4 : (!tb.stensor<33x1xi8>, !tb.stensor<1x5xi8>) -> !tb.stensor<33x5xi32>
      %6 = tb.cast %5 then [relu, relu] : !tb.stensor<33x5xi32> -> !tb.stensor<33x5xf32>
      %7 = tb.reduction %6 dim 0 : !tb.stensor<33x5xf32> -> !tb.stensor<1x5xf16>
      tb.output %7 omap [1, 0, 0] : !tb.stensor<1x5xf16> -> tensor<3x10xf16>
    } : (tensor<98x2xi8>, tensor<3x10xi8>) -> tensor<3x10xf16>
    func.return %0 : tensor<3x10xf16>
  }
}
