// Numbers that scale products are loaded one iteration after the other where rows do not start at multiples of a vector.
// RUN: mg-opt --plan="tiles=written loads=tma" --transpile=arch=sm_90a %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-run --check %t.mlir | filecheck %s --check-prefix VALUES

// VALUES: check: output 0, 128x128 bfloat16: relative error {{.*}} against float64, within

// CHECK: sched.forloop 64 step 4 carrying
// CHECK: sched.load %dsx_tile
// CHECK-NOT: aligned
// CHECK: func.func @apart
func.func @apart(%x: tensor<128x2048xf8E4M3FN>, %w: tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>, %sx: tensor<128x64xf32, #cute.layout<(128,64):(65,1)>>) -> tensor<128x128xbf16> {
  %o = kn.customized %x, %w, %sx grid [1, 1, 1] block [256, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<128x2048xf8E4M3FN>, %dw: tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>, %dsx: tensor<128x64xf32, #cute.layout<(128,64):(65,1)>>):
    %tx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<128x2048xf8E4M3FN> -> !tb.stensor<128x32xf8E4M3FN>
    %tw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>> -> !tb.stensor<32x128xf8E4M3FN>
    %ts = tb.input %dsx imap [-1, -1, -1] fordim 1 : tensor<128x64xf32, #cute.layout<(128,64):(65,1)>> -> !tb.stensor<128x1xf32>
    %m = tb.matmul %tx, %tw : (!tb.stensor<128x32xf8E4M3FN>, !tb.stensor<32x128xf8E4M3FN>) -> !tb.stensor<128x128xf32>
    %s = tb.mul %m, %ts : (!tb.stensor<128x128xf32>, !tb.stensor<128x1xf32>) -> !tb.stensor<128x128xf32>
    %a = tb.forloop_accum none %s : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %c = tb.cast %a : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xbf16>
    tb.output %c omap [-1, -1, -1] : !tb.stensor<128x128xbf16> -> tensor<128x128xbf16>
  } : (tensor<128x2048xf8E4M3FN>, tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>, tensor<128x64xf32, #cute.layout<(128,64):(65,1)>>) -> tensor<128x128xbf16>
  func.return %o : tensor<128x128xbf16>
}
