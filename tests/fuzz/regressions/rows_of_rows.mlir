// What is computed of rows' sums stays with the threads of the rows; some rows do not exist.
func.func @rows_of_rows(%signed: tensor<19x128xf16>, %positive: tensor<19x128xf16>) -> tensor<19x1xf16> {
  %o = kn.customized %signed, %positive grid [3, 1, 1] block [64, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<19x128xf16>, %dy: tensor<19x128xf16>):
    %x = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<19x128xf16> -> !tb.stensor<7x64xf16>
    %y = tb.input %dy imap [0, -1, -1] fordim 1 : tensor<19x128xf16> -> !tb.stensor<7x64xf16>
    %e = tb.exp %x : !tb.stensor<7x64xf16> -> !tb.stensor<7x64xf16>
    %p = tb.mul %e, %y : (!tb.stensor<7x64xf16>, !tb.stensor<7x64xf16>) -> !tb.stensor<7x64xf16>
    %a = tb.forloop_accum sum %p : !tb.stensor<7x64xf16> -> !tb.stensor<7x1xf16>
    %b = tb.forloop_accum sum %e : !tb.stensor<7x64xf16> -> !tb.stensor<7x1xf16>
    %q = tb.div %a, %b : (!tb.stensor<7x1xf16>, !tb.stensor<7x1xf16>) -> !tb.stensor<7x1xf16>
    tb.output %q omap [0, -1, -1] : !tb.stensor<7x1xf16> -> tensor<19x1xf16>
  } : (tensor<19x128xf16>, tensor<19x128xf16>) -> tensor<19x1xf16>
  func.return %o : tensor<19x1xf16>
}
