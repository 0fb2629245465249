// rms_norm(x + a * (rms_norm(h) + x)) of h, x, a[64,4096]: a block a row.
func.func @ntrans_bs8(%h: tensor<64x4096xf16>, %x: tensor<64x4096xf16>, %a: tensor<64x4096xf16>) -> tensor<64x4096xf16> {
  %o = kn.customized %h, %x, %a grid [64, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dh: tensor<64x4096xf16>, %dx: tensor<64x4096xf16>, %da: tensor<64x4096xf16>):
    %sh = tb.input %dh imap [0, -1, -1] : tensor<64x4096xf16> -> !tb.stensor<1x4096xf16>
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x4096xf16> -> !tb.stensor<1x4096xf16>
    %sa = tb.input %da imap [0, -1, -1] : tensor<64x4096xf16> -> !tb.stensor<1x4096xf16>
    %n = tb.rms_norm %sh : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %moved = tb.add %n, %sx : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %scaled = tb.mul %sa, %moved : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %sum = tb.add %sx, %scaled : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %out = tb.rms_norm %sum : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %stored = tb.forloop_accum none %out : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    tb.output %stored omap [0, -1, -1] : !tb.stensor<1x4096xf16> -> tensor<64x4096xf16>
  } : (tensor<64x4096xf16>, tensor<64x4096xf16>, tensor<64x4096xf16>) -> tensor<64x4096xf16>
  func.return %o : tensor<64x4096xf16>
}
