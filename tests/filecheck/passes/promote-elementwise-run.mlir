// Element-wise operators one behind the other are computed value by value: a product of 96 registers
// a thread passes through gelu, written as six of them, in registers and leaves from there.
// RUN: mg-opt --plan="tiles=written loads=tma pdl=none" --transpile=arch=sm_90a %s | filecheck %s

// CHECK-NOT: sched.alloc {{.*}} !sched.shared<128x192
// CHECK: sched.epilogue {
// CHECK: sched.map add %s{{[_0-9]*}}, %sb{{[_0-9]*}} to %s
// CHECK: sched.map mul_scalar(0.5)
// CHECK: then [mul_scalar(0.75), tanh, add_scalar(1.0)]
// CHECK: sched.store %{{.*}} to %o_tile : !sched.tile<128x192xf32
func.func @up(%x: tensor<512x512xbf16>, %w: tensor<512x384xbf16>, %b: tensor<1x384xbf16>) -> tensor<512x384xbf16, #cute.layout<(512,384):(384,1)>> {
  %o = kn.customized %x, %w, %b grid [2, 4, 1] block [256, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<512x512xbf16>, %dw: tensor<512x384xbf16>, %db: tensor<1x384xbf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<512x512xbf16> -> !tb.stensor<128x64xbf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x384xbf16> -> !tb.stensor<64x192xbf16>
    %sb = tb.input %db imap [1, -1, -1] : tensor<1x384xbf16> -> !tb.stensor<1x192xbf16>
    %s = tb.matmul %sx, %sw then [accum] : (!tb.stensor<128x64xbf16>, !tb.stensor<64x192xbf16>) -> !tb.stensor<128x192xf32>
    %a = tb.add %s, %sb : (!tb.stensor<128x192xf32>, !tb.stensor<1x192xbf16>) -> !tb.stensor<128x192xbf16>
    %half = tb.mul_scalar %a by 5.000000e-01 : !tb.stensor<128x192xbf16> -> !tb.stensor<128x192xbf16>
    %square = tb.mul %a, %a : (!tb.stensor<128x192xbf16>, !tb.stensor<128x192xbf16>) -> !tb.stensor<128x192xf32>
    %cube = tb.mul %square, %a then [mul_scalar(0.0625)] : (!tb.stensor<128x192xf32>, !tb.stensor<128x192xbf16>) -> !tb.stensor<128x192xbf16>
    %wide = tb.add %a, %cube then [mul_scalar(0.75), tanh, add_scalar(1.0)] : (!tb.stensor<128x192xbf16>, !tb.stensor<128x192xbf16>) -> !tb.stensor<128x192xbf16>
    %g = tb.mul %half, %wide : (!tb.stensor<128x192xbf16>, !tb.stensor<128x192xbf16>) -> !tb.stensor<128x192xbf16>
    tb.output %g omap [1, 0, -1] : !tb.stensor<128x192xbf16> -> tensor<512x384xbf16, #cute.layout<(512,384):(384,1)>>
  } : (tensor<512x512xbf16>, tensor<512x384xbf16>, tensor<1x384xbf16>) -> tensor<512x384xbf16, #cute.layout<(512,384):(384,1)>>
  func.return %o : tensor<512x384xbf16, #cute.layout<(512,384):(384,1)>>
}
