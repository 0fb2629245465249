// RUN: mg-opt --plan="outline=true tiles=written" --retile %s | filecheck %s

// Four blocks along y load the same tiles and take the same sigmoids: a kernel before takes them once. What comes after
// the product is each block's own.

// CHECK:      %g_of_all = kn.customized %w grid [{{.*}}] block {{.*}} forloop 1 {
// CHECK:        %g = tb.sigmoid %sw
// CHECK-NEXT:   tb.forloop_accum none %g
// CHECK:      %o = kn.customized %x, %g_of_all grid [2, 4, 1] block [64, 1, 1] forloop 4 plan <tiles = written> {
// CHECK:        %sx = tb.input %dx imap [-1, 0, -1] fordim 1
// CHECK-NEXT:   %g = tb.input %g_of_all_1 imap [1, -1, -1] fordim 0
// CHECK-NEXT:   %m = tb.matmul %sx, %g
// CHECK-NEXT:   %a = tb.forloop_accum none %m
// CHECK-NEXT:   %r = tb.relu %a
func.func @f(%x: tensor<64x64xf16>, %w: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %w grid [2, 4, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x64xf16>, %dw: tensor<64x64xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<64x64xf16> -> !tb.stensor<16x16xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x64xf16> -> !tb.stensor<16x32xf16>
    %g = tb.sigmoid %sw : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %m = tb.matmul %sx, %g : (!tb.stensor<16x16xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %r = tb.relu %a : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %r omap [1, 0, -1] : !tb.stensor<16x32xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
