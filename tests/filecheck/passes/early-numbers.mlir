// RUN: mg-opt --plan="tiles=written loads=tma stores=tma stages=2 pdl=none" --transpile=arch=sm_90a %s | filecheck %s

// A bias comes to registers before the loop, a residual through shared memory, in whose place the result is written.
// CHECK:      %sr = sched.alloc offset [[PLACE:[0-9]+]] :
// CHECK:      %o_shared = sched.alloc offset [[PLACE]] :
// CHECK:      sched.role "consumers"
// CHECK:        sched.prologue {
// CHECK:          %sv{{.*}} = sched.load %dv_tile to %sv
// CHECK:        sched.forloop 4
// CHECK:        sched.epilogue {
// CHECK:          sched.load %sr to
// CHECK:          sched.store %{{.*}} to %o_shared
// CHECK-NOT:      sched.load %dv_tile
func.func @f(%a: tensor<256x256xf16>, %b: tensor<256x256xf16>, %v: tensor<1x256xf16>, %r: tensor<256x256xf16>)
    -> tensor<256x256xf16> {
  %o = kn.customized %a, %b, %v, %r grid [2, 2, 1] block [256, 1, 1] forloop 4 {
  ^bb0(%da: tensor<256x256xf16>, %db: tensor<256x256xf16>, %dv: tensor<1x256xf16>, %dr: tensor<256x256xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<256x256xf16> -> !tb.stensor<128x64xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<256x256xf16> -> !tb.stensor<64x128xf16>
    %sv = tb.input %dv imap [1, -1, -1] : tensor<1x256xf16> -> !tb.stensor<1x128xf16>
    %sr = tb.input %dr imap [1, 0, -1] : tensor<256x256xf16> -> !tb.stensor<128x128xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf16>
    %t = tb.forloop_accum none %m : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
    %u = tb.add %t, %sv : (!tb.stensor<128x128xf16>, !tb.stensor<1x128xf16>) -> !tb.stensor<128x128xf16>
    %s = tb.add %u, %sr : (!tb.stensor<128x128xf16>, !tb.stensor<128x128xf16>) -> !tb.stensor<128x128xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<128x128xf16> -> tensor<256x256xf16>
  } : (tensor<256x256xf16>, tensor<256x256xf16>, tensor<1x256xf16>, tensor<256x256xf16>) -> tensor<256x256xf16>
  func.return %o : tensor<256x256xf16>
}
