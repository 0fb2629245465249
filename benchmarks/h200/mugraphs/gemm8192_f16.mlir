// A·B with A, B[8192,8192] in f16: a block 128 rows and 128 columns.
func.func @gemm8192_f16(%a: tensor<8192x8192xf16>, %b: tensor<8192x8192xf16>) -> tensor<8192x8192xf16> {
  %o = kn.customized %a, %b grid [64, 64, 1] block [256, 1, 1] forloop 128 {
  ^bb0(%da: tensor<8192x8192xf16>, %db: tensor<8192x8192xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<8192x8192xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<8192x8192xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<128x128xf16> -> tensor<8192x8192xf16>
  } : (tensor<8192x8192xf16>, tensor<8192x8192xf16>) -> tensor<8192x8192xf16>
  func.return %o : tensor<8192x8192xf16>
}
