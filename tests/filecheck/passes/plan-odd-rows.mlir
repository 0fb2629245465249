// RUN: mg-opt --split-input-file --plan %s | filecheck %s

// Threads store rows of 50,257 elements, in blocks that are persistent only where consumers alternate. Rows of 50,264 leave
// by TMA, while the same consumers multiply.

// CHECK: kn.customized
// CHECK-SAME: ping_pong = 2
func.func @odd(%x: tensor<2048x2048xf16>, %w: tensor<2048x50257xf16, #cute.layout<(2048,50257):(1,2048)>>) -> tensor<2048x50257xf16, #cute.layout<(2048,50257):(50257,1)>> {
  %o = kn.customized %x, %w grid [786, 16, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<2048x2048xf16>, %dw: tensor<2048x50257xf16, #cute.layout<(2048,50257):(1,2048)>>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2048x2048xf16> -> !tb.stensor<128x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<2048x50257xf16, #cute.layout<(2048,50257):(1,2048)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<2048x50257xf16, #cute.layout<(2048,50257):(50257,1)>>
  } : (tensor<2048x2048xf16>, tensor<2048x50257xf16, #cute.layout<(2048,50257):(1,2048)>>) -> tensor<2048x50257xf16, #cute.layout<(2048,50257):(50257,1)>>
  func.return %o : tensor<2048x50257xf16, #cute.layout<(2048,50257):(50257,1)>>
}

// -----

// CHECK: kn.customized
// CHECK-NOT: ping_pong
func.func @even(%x: tensor<2048x2048xf16>, %w: tensor<2048x50264xf16, #cute.layout<(2048,50264):(1,2048)>>) -> tensor<2048x50264xf16, #cute.layout<(2048,50264):(50264,1)>> {
  %o = kn.customized %x, %w grid [786, 16, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: tensor<2048x2048xf16>, %dw: tensor<2048x50264xf16, #cute.layout<(2048,50264):(1,2048)>>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2048x2048xf16> -> !tb.stensor<128x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<2048x50264xf16, #cute.layout<(2048,50264):(1,2048)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<2048x50264xf16, #cute.layout<(2048,50264):(50264,1)>>
  } : (tensor<2048x2048xf16>, tensor<2048x50264xf16, #cute.layout<(2048,50264):(1,2048)>>) -> tensor<2048x50264xf16, #cute.layout<(2048,50264):(50264,1)>>
  func.return %o : tensor<2048x50264xf16, #cute.layout<(2048,50264):(50264,1)>>
}
