// Scales of each 128 of k: of rows of x, which lie along m, and of columns of w. A product of an iteration is multiplied by
// both in registers, and added to those before.
// RUN: mg-opt --plan="tiles=written loads=tma" --transpile=arch=sm_90a %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-run --check %t.mlir | filecheck %s --check-prefix VALUES

// VALUES: check: output 0, 256x256 bfloat16: relative error {{.*}} against float64, within

// CHECK: sched.forloop 4 carrying
// CHECK: sched.warpgroup_mma fresh %tx, %tw to %m
// CHECK: sched.map mul %m{{.*}} #sched.slice<dim 1
// CHECK: sched.map mul %m{{.*}} then [accum]{{.*}} #sched.slice<dim 0
func.func @blocks(%x: tensor<256x512xf8E4M3FN>, %w: tensor<512x256xf8E4M3FN, #cute.layout<(512,256):(1,512)>>, %sx: tensor<256x4xf32, #cute.layout<(256,4):(1,256)>>, %sw: tensor<4x256xf32>) -> tensor<256x256xbf16> {
  %o = kn.customized %x, %w, %sx, %sw grid [2, 2, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<256x512xf8E4M3FN>, %dw: tensor<512x256xf8E4M3FN, #cute.layout<(512,256):(1,512)>>, %dsx: tensor<256x4xf32, #cute.layout<(256,4):(1,256)>>, %dsw: tensor<4x256xf32>):
    %tx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<256x512xf8E4M3FN> -> !tb.stensor<128x128xf8E4M3FN>
    %tw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<512x256xf8E4M3FN, #cute.layout<(512,256):(1,512)>> -> !tb.stensor<128x128xf8E4M3FN>
    %tsx = tb.input %dsx imap [0, -1, -1] fordim 1 : tensor<256x4xf32, #cute.layout<(256,4):(1,256)>> -> !tb.stensor<128x1xf32>
    %tsw = tb.input %dsw imap [-1, 1, -1] fordim 0 : tensor<4x256xf32> -> !tb.stensor<1x128xf32>
    %m = tb.matmul %tx, %tw : (!tb.stensor<128x128xf8E4M3FN>, !tb.stensor<128x128xf8E4M3FN>) -> !tb.stensor<128x128xf32>
    %r = tb.mul %m, %tsx : (!tb.stensor<128x128xf32>, !tb.stensor<128x1xf32>) -> !tb.stensor<128x128xf32>
    %s = tb.mul %r, %tsw : (!tb.stensor<128x128xf32>, !tb.stensor<1x128xf32>) -> !tb.stensor<128x128xf32>
    %a = tb.forloop_accum none %s : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %c = tb.cast %a : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xbf16>
    tb.output %c omap [0, 1, -1] : !tb.stensor<128x128xbf16> -> tensor<256x256xbf16>
  } : (tensor<256x512xf8E4M3FN>, tensor<512x256xf8E4M3FN, #cute.layout<(512,256):(1,512)>>, tensor<256x4xf32, #cute.layout<(256,4):(1,256)>>, tensor<4x256xf32>) -> tensor<256x256xbf16>
  func.return %o : tensor<256x256xbf16>
}
