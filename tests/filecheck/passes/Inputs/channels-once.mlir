// 24 iterations wrap around any ring; b is loaded once and read in the loop, c once and read after it; two blocks.
func.func @sums(%x: tensor<32x768xf16>, %w: tensor<768x64xf16>, %b: tensor<32x32xf16>, %c: tensor<1x64xf16>) -> tensor<32x64xf16> {
  %o = kn.customized %x, %w, %b, %c grid [2, 1, 1] block [64, 1, 1] forloop 24 {
  ^bb0(%dx: tensor<32x768xf16>, %dw: tensor<768x64xf16>, %db: tensor<32x32xf16>, %dc: tensor<1x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<32x768xf16> -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<768x64xf16> -> !tb.stensor<32x64xf16>
    %sb = tb.input %db imap [0, -1, -1] : tensor<32x32xf16> -> !tb.stensor<16x32xf16>
    %sc = tb.input %dc imap [-1, -1, -1] : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %a = tb.mul %sx, %sb : (!tb.stensor<16x32xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<16x32xf16>
    %m = tb.matmul %a, %sw : (!tb.stensor<16x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<16x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %s = tb.mul_scalar %am by 0.0078125 : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %d = tb.add %s, %sc : (!tb.stensor<16x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %d omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<32x64xf16>
  } : (tensor<32x768xf16>, tensor<768x64xf16>, tensor<32x32xf16>, tensor<1x64xf16>) -> tensor<32x64xf16>
  func.return %o : tensor<32x64xf16>
}
