// Both products are of one x, whose tile is loaded once, so that one loop walks what both sum over.
// RUN: mg-opt --plan="inline=true forloop=2" --retile %s | filecheck %s

// CHECK:      %o = kn.customized %x, %a, %b grid [2, 1, 1] block [128, 1, 1] forloop 2 plan <tiles = written{{.*}}
// CHECK:        %x_tile = tb.input %x_1 imap [-1, -1, -1] fordim 1
// CHECK-NEXT:   %a_tile = tb.input
// CHECK-NEXT:   %sp = tb.matmul %x_tile, %a_tile
// CHECK-NEXT:   %b_tile = tb.input
// CHECK-NEXT:   %sq = tb.matmul %x_tile, %b_tile
func.func @gated(%x: tensor<64x256xf16>, %a: tensor<256x128xf16>, %b: tensor<256x128xf16>) -> tensor<64x128xf16> {
  %p = kn.matmul %x, %a : (tensor<64x256xf16>, tensor<256x128xf16>) -> tensor<64x128xf16>
  %q = kn.matmul %x, %b : (tensor<64x256xf16>, tensor<256x128xf16>) -> tensor<64x128xf16>
  %o = kn.customized %p, %q grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dp: tensor<64x128xf16>, %dq: tensor<64x128xf16>):
    %sp = tb.input %dp imap [1, -1, -1] : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %sq = tb.input %dq imap [1, -1, -1] : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %m = tb.forloop_accum none %sp : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %n = tb.forloop_accum none %sq : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %r = tb.mul %m, %n : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    tb.output %r omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x128xf16>
  } : (tensor<64x128xf16>, tensor<64x128xf16>) -> tensor<64x128xf16>
  func.return %o : tensor<64x128xf16>
}
