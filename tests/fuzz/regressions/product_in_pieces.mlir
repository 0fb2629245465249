// More values a thread than registers hold: pieces, some cut off by the edge, k not a multiple.
func.func @g(%x: tensor<100x40xf16>, %y: tensor<40x200xf16>) -> tensor<100x200xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<100x40xf16>, %dy: tensor<40x200xf16>):
    %a = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<100x40xf16> -> !tb.stensor<100x20xf16>
    %b = tb.input %dy imap [-1, -1, -1] fordim 0 : tensor<40x200xf16> -> !tb.stensor<20x200xf16>
    %p = tb.matmul %a, %b : (!tb.stensor<100x20xf16>, !tb.stensor<20x200xf16>) -> !tb.stensor<100x200xf16>
    %m = tb.square %p then [accum] : !tb.stensor<100x200xf16> -> !tb.stensor<100x200xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<100x200xf16> -> tensor<100x200xf16>
  } : (tensor<100x40xf16>, tensor<40x200xf16>) -> tensor<100x200xf16>
  func.return %o : tensor<100x200xf16>
}
