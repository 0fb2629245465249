// A[256,512] · B[512,256] by blocks of one warp group, 64 rows and 128 columns.
func.func @gemm(%a: tensor<256x512xf16>, %b: tensor<512x256xf16>) -> tensor<256x256xf16> {
  %o = kn.customized %a, %b grid [2, 4, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%da: tensor<256x512xf16>, %db: tensor<512x256xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<256x512xf16> -> !tb.stensor<64x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<512x256xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %total = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %total omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<256x256xf16>
  } : (tensor<256x512xf16>, tensor<512x256xf16>) -> tensor<256x256xf16>
  func.return %o : tensor<256x256xf16>
}
