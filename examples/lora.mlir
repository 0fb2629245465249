// A linear layer with a low-rank correction, X·W + (X·A)·B, with X[16,1024], W[1024,2048] and rank
// 16, in one kernel: both products over the 1024 rows share the tiles of X.  B is loaded before the
// loop and used after it; each of 32 blocks owns 64 columns of W and B, and computes X·A itself.
func.func @lora(%x: tensor<16x1024xf16>, %w: tensor<1024x2048xf16>, %a: tensor<1024x16xf16>, %b: tensor<16x2048xf16>) -> tensor<16x2048xf16> {
  %o = kn.customized %x, %w, %a, %b grid [32, 1, 1] block [128, 1, 1] forloop 16 {
  ^bb0(%dx: tensor<16x1024xf16>, %dw: tensor<1024x2048xf16>, %da: tensor<1024x16xf16>, %db: tensor<16x2048xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x1024xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x2048xf16> -> !tb.stensor<64x64xf16>
    %sa = tb.input %da imap [-1, -1, -1] fordim 0 : tensor<1024x16xf16> -> !tb.stensor<64x16xf16>
    %sb = tb.input %db imap [1, -1, -1] : tensor<16x2048xf16> -> !tb.stensor<16x64xf16>
    %xw = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %xa = tb.matmul %sx, %sa : (!tb.stensor<16x64xf16>, !tb.stensor<64x16xf16>) -> !tb.stensor<16x16xf16>
    %full = tb.forloop_accum none %xw : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %low = tb.forloop_accum none %xa : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %correction = tb.matmul %low, %sb : (!tb.stensor<16x16xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %sum = tb.add %full, %correction : (!tb.stensor<16x64xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %sum omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x2048xf16>
  } : (tensor<16x1024xf16>, tensor<1024x2048xf16>, tensor<1024x16xf16>, tensor<16x2048xf16>) -> tensor<16x2048xf16>
  func.return %o : tensor<16x2048xf16>
}
