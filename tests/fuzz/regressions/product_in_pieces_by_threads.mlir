// Single threads multiply, in pieces.
func.func @g(%x: tensor<80x10xf16>, %y: tensor<10x97xf16>) -> tensor<80x97xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [8, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<80x10xf16>, %dy: tensor<10x97xf16>):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<80x10xf16> -> !tb.stensor<80x5xf16>
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<10x97xf16> -> !tb.stensor<5x97xf16>
    %m = tb.matmul %a, %b then [exp, accum] : (!tb.stensor<80x5xf16>, !tb.stensor<5x97xf16>) -> !tb.stensor<80x97xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<80x97xf16> -> tensor<80x97xf16>
  } : (tensor<80x10xf16>, tensor<10x97xf16>) -> tensor<80x97xf16>
  func.return %o : tensor<80x97xf16>
}
