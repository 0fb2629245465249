// RUN: mg-opt --split-input-file --plan %s | filecheck %s

// Threads store rows of 32,001 elements, in blocks that are persistent only where consumers alternate. Rows of 32,000 leave
// by TMA, while the same consumers multiply.

// CHECK: kn.customized
// CHECK-SAME: ping_pong = 2
func.func @odd(%x: tensor<2048x4096xf16>, %w: tensor<4096x32001xf16, #cute.layout<(4096,32001):(1,4096)>>) -> tensor<2048x32001xf16, #cute.layout<(2048,32001):(32001,1)>> {
  %o = kn.customized %x, %w grid [501, 16, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<2048x4096xf16>, %dw: tensor<4096x32001xf16, #cute.layout<(4096,32001):(1,4096)>>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2048x4096xf16> -> !tb.stensor<128x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x32001xf16, #cute.layout<(4096,32001):(1,4096)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<2048x32001xf16, #cute.layout<(2048,32001):(32001,1)>>
  } : (tensor<2048x4096xf16>, tensor<4096x32001xf16, #cute.layout<(4096,32001):(1,4096)>>) -> tensor<2048x32001xf16, #cute.layout<(2048,32001):(32001,1)>>
  func.return %o : tensor<2048x32001xf16, #cute.layout<(2048,32001):(32001,1)>>
}

// -----

// CHECK: kn.customized
// CHECK-NOT: ping_pong
func.func @even(%x: tensor<2048x4096xf16>, %w: tensor<4096x32000xf16, #cute.layout<(4096,32000):(1,4096)>>) -> tensor<2048x32000xf16, #cute.layout<(2048,32000):(32000,1)>> {
  %o = kn.customized %x, %w grid [500, 16, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<2048x4096xf16>, %dw: tensor<4096x32000xf16, #cute.layout<(4096,32000):(1,4096)>>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2048x4096xf16> -> !tb.stensor<128x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x32000xf16, #cute.layout<(4096,32000):(1,4096)>> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x64xf16> -> tensor<2048x32000xf16, #cute.layout<(2048,32000):(32000,1)>>
  } : (tensor<2048x4096xf16>, tensor<4096x32000xf16, #cute.layout<(4096,32000):(1,4096)>>) -> tensor<2048x32000xf16, #cute.layout<(2048,32000):(32000,1)>>
  func.return %o : tensor<2048x32000xf16, #cute.layout<(2048,32000):(32000,1)>>
}
