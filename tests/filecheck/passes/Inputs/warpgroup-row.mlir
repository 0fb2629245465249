// A[64,640] · B[640,256], a block all rows and 64 columns: A comes in two boxes a tile, for all blocks the same.
func.func @row(%signed: tensor<64x640xf16>, %signed_1: tensor<640x256xf16>) -> tensor<64x256xf16> {
  %o = kn.customized %signed, %signed_1 grid [4, 1, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%da: tensor<64x640xf16>, %db: tensor<640x256xf16>):
    %sa = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<64x640xf16> -> !tb.stensor<64x128xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<640x256xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<64x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<64x64xf16>
    %total = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %total omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x256xf16>
  } : (tensor<64x640xf16>, tensor<640x256xf16>) -> tensor<64x256xf16>
  func.return %o : tensor<64x256xf16>
}
