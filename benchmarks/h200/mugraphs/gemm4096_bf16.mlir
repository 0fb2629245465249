// A·B with A, B[4096,4096] in bf16: a block 128 rows and 128 columns.
func.func @gemm4096_bf16(%a: tensor<4096x4096xbf16>, %b: tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16> {
  %o = kn.customized %a, %b grid [32, 32, 1] block [256, 1, 1] forloop 64 {
  ^bb0(%da: tensor<4096x4096xbf16>, %db: tensor<4096x4096xbf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<4096x4096xbf16> -> !tb.stensor<128x64xbf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<4096x4096xbf16> -> !tb.stensor<64x128xbf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<128x64xbf16>, !tb.stensor<64x128xbf16>) -> !tb.stensor<128x128xbf16>
    %product = tb.forloop_accum none %m : !tb.stensor<128x128xbf16> -> !tb.stensor<128x128xbf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<128x128xbf16> -> tensor<4096x4096xbf16>
  } : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  func.return %o : tensor<4096x4096xbf16>
}
