func.func @f(%x: tensor<64x128xf16>, %w: tensor<128x64xf16>, %s: tensor<64x1xf32>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %w, %s grid [4, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x128xf16>, %dw: tensor<128x64xf16>, %ds: tensor<64x1xf32>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<64x128xf16> -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<128x64xf16> -> !tb.stensor<32x64xf16>
    %ss = tb.input %ds imap [0, -1, -1] fordim -1 : tensor<64x1xf32> -> !tb.stensor<16x1xf32>
    %p = tb.matmul %sx, %sw : (!tb.stensor<16x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<16x64xf16>
    %q = tb.forloop_accum none %p : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %t = tb.custom @bent(%q) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %g = tb.custom @scaled(%t, %ss) : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf16>
    %c = tb.custom @bounded(%g) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %m = tb.custom @mirrored(%c) : (!tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %k = tb.custom @kept(%m, %c) : (!tb.stensor<16x64xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %k omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x128xf16>, tensor<128x64xf16>, tensor<64x1xf32>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
