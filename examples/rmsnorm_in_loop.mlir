// A norm inside the loop: each of 8 heads of X[16, 8·128] is divided by the root of its sum of
// squares and multiplied by a weight that all heads share, then projected by W[8·128, 512] and the
// heads are summed.  (The factor sqrt(128) between that root and the RMS belongs to the weight.)
// One iteration a head; the weight is loaded once, before the loop.
func.func @rmsnorm_in_loop(%x: tensor<16x1024xf16>, %weight: tensor<1x128xf16>, %w: tensor<1024x512xf16>) -> tensor<16x512xf16> {
  %o = kn.customized %x, %weight, %w grid [8, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x1024xf16>, %dweight: tensor<1x128xf16>, %dw: tensor<1024x512xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x1024xf16> -> !tb.stensor<16x128xf16>
    %sweight = tb.input %dweight imap [-1, -1, -1] : tensor<1x128xf16> -> !tb.stensor<1x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x512xf16> -> !tb.stensor<128x64xf16>
    %square = tb.square %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf32>
    %sum = tb.reduction %square dim 1 : !tb.stensor<16x128xf32> -> !tb.stensor<16x1xf32>
    %root = tb.sqrt %sum : !tb.stensor<16x1xf32> -> !tb.stensor<16x1xf32>
    %unit = tb.div %sx, %root : (!tb.stensor<16x128xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x128xf16>
    %norm = tb.mul %unit, %sweight : (!tb.stensor<16x128xf16>, !tb.stensor<1x128xf16>) -> !tb.stensor<16x128xf16>
    %product = tb.matmul %norm, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %total = tb.forloop_accum none %product : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %total omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x512xf16>
  } : (tensor<16x1024xf16>, tensor<1x128xf16>, tensor<1024x512xf16>) -> tensor<16x512xf16>
  func.return %o : tensor<16x512xf16>
}
