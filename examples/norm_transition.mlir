// rms_norm(x + a * (rms_norm(h) + x)) of rows of 4096, a block a row: all of a row stays in the
// registers of its 512 threads, which read and write each element once, in 16 bytes; each norm
// passes through one number a warp.
func.func @norm_transition(%h: tensor<8x4096xf16>, %x: tensor<8x4096xf16>, %a: tensor<8x4096xf16>) -> tensor<8x4096xf16> {
  %o = kn.customized %h, %x, %a grid [8, 1, 1] block [512, 1, 1] forloop 1 {
  ^bb0(%dh: tensor<8x4096xf16>, %dx: tensor<8x4096xf16>, %da: tensor<8x4096xf16>):
    %sh = tb.input %dh imap [0, -1, -1] : tensor<8x4096xf16> -> !tb.stensor<1x4096xf16>
    %sx = tb.input %dx imap [0, -1, -1] : tensor<8x4096xf16> -> !tb.stensor<1x4096xf16>
    %sa = tb.input %da imap [0, -1, -1] : tensor<8x4096xf16> -> !tb.stensor<1x4096xf16>
    %n = tb.rms_norm %sh : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %s = tb.add %n, %sx : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %p = tb.mul %sa, %s : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %t = tb.add %sx, %p : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %r = tb.rms_norm %t : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %f = tb.forloop_accum none %r : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    tb.output %f omap [0, -1, -1] : !tb.stensor<1x4096xf16> -> tensor<8x4096xf16>
  } : (tensor<8x4096xf16>, tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  func.return %o : tensor<8x4096xf16>
}
