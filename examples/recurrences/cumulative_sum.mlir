// Sums up to each element of 128 rows of 65536 numbers.  A block has 16 rows; its loop walks chunks of 128 columns.
// Within a chunk they are a product with a triangle of ones, on tensor cores; the loop carries the sum of all before.
// A corner of %x gives the triangle its extents and nothing else.
func.func @cumulative_sum(%x: tensor<128x65536xf16>) -> tensor<128x65536xf32> {
  %corner = kn.slice %x from [0, 0] : tensor<128x65536xf16> -> tensor<128x128xf16>
  %y = kn.customized %x, %corner grid [8, 1, 1] block [128, 1, 1] forloop 512 {
  ^bb0(%dx: tensor<128x65536xf16>, %dc: tensor<128x128xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<128x65536xf16> -> !tb.stensor<16x128xf16>
    %sc = tb.input %dc imap [-1, -1, -1] : tensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %ones = tb.fill %sc with 1.0 : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %triangle = tb.mask %ones with 0.0 where affine_set<(i, j) : (j - i >= 0)> of [128, 128] imap [-1, -1, -1] : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %before = tb.carried : !tb.stensor<16x1xf32>
    %inside = tb.matmul %sx, %triangle : (!tb.stensor<16x128xf16>, !tb.stensor<128x128xf16>) -> !tb.stensor<16x128xf32>
    %sums = tb.add %inside, %before : (!tb.stensor<16x128xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x128xf32>
    tb.output %sums omap [0, -1, -1] fordim 1 : !tb.stensor<16x128xf32> -> tensor<128x65536xf32>
    %total = tb.reduction %sx dim 1 : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf32>
    %next = tb.add %before, %total : (!tb.stensor<16x1xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x1xf32>
    %last = tb.carry %next to %before : (!tb.stensor<16x1xf32>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x1xf32>
  } : (tensor<128x65536xf16>, tensor<128x128xf16>) -> tensor<128x65536xf32>
  func.return %y : tensor<128x65536xf32>
}
