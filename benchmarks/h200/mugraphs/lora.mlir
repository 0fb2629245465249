// X·W + (X·A)·B with X[16,256], W[256,4096], A[256,16] and B[16,4096]: both products over the 256 rows
// share the tiles of X; each of 64 blocks owns 64 columns of W and B, and computes X·A itself.
func.func @lora(%x: tensor<16x256xf16>, %w: tensor<256x4096xf16> {mugraph.constant}, %a: tensor<256x16xf16> {mugraph.constant}, %b: tensor<16x4096xf16> {mugraph.constant}) -> tensor<16x4096xf16> {
  %o = kn.customized %x, %w, %a, %b grid [64, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x256xf16>, %dw: tensor<256x4096xf16>, %da: tensor<256x16xf16>, %db: tensor<16x4096xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x4096xf16> -> !tb.stensor<64x64xf16>
    %sa = tb.input %da imap [-1, -1, -1] fordim 0 : tensor<256x16xf16> -> !tb.stensor<64x16xf16>
    %sb = tb.input %db imap [1, -1, -1] : tensor<16x4096xf16> -> !tb.stensor<16x64xf16>
    %xw = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %xa = tb.matmul %sx, %sa : (!tb.stensor<16x64xf16>, !tb.stensor<64x16xf16>) -> !tb.stensor<16x16xf16>
    %full = tb.forloop_accum none %xw : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %low = tb.forloop_accum none %xa : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %correction = tb.matmul %low, %sb : (!tb.stensor<16x16xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %sum = tb.add %full, %correction : (!tb.stensor<16x64xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %sum omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x4096xf16>
  } : (tensor<16x256xf16>, tensor<256x4096xf16>, tensor<256x16xf16>, tensor<16x4096xf16>) -> tensor<16x4096xf16>
  func.return %o : tensor<16x4096xf16>
}
