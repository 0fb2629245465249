// RUN: mg-opt --transpile="arch=sm_90a" %s | filecheck %s
// A state that takes up a product in each iteration stays where threads hold the product: its number decays it in
// registers, and no barrier stands between the product and the next state.

// CHECK-NOT:   sched.alloc {{.*}}shared<1x1x64x16xf32
// CHECK:       sched.forloop 4
// CHECK:         sched.barrier
// CHECK-NOT:     sched.barrier
// CHECK:         %[[M:.*]] = sched.mma %sk, %sv
// CHECK:         %[[BY:.*]] = sched.load %se to %{{.*}} to !sched.tile<1x1x64x1xf32, #sched.slice<
// CHECK:         %[[D:.*]] = sched.map mul %[[STATE:.*]], %[[BY]] to
// CHECK:         sched.map add %[[D]], %[[M]] to %[[STATE]]
// CHECK-NOT:     sched.barrier
// CHECK:         sched.yield
func.func @states(%k: tensor<2x4x64x64xbf16>, %v: tensor<2x4x64x16xbf16>, %e: tensor<2x4x1x1xf32>) -> tensor<2x4x64x16xbf16> {
  %o = kn.customized %k, %v, %e grid [2, 1, 1] block [128, 1, 1] forloop 4 plan <tiles = written> {
  ^bb0(%dk: tensor<2x4x64x64xbf16>, %dv: tensor<2x4x64x16xbf16>, %de: tensor<2x4x1x1xf32>):
    %sk = tb.input %dk imap [0, -1, -1] fordim 1 : tensor<2x4x64x64xbf16> -> !tb.stensor<1x1x64x64xbf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<2x4x64x16xbf16> -> !tb.stensor<1x1x64x16xbf16>
    %m = tb.matmul %sk, %sv : (!tb.stensor<1x1x64x64xbf16>, !tb.stensor<1x1x64x16xbf16>) -> !tb.stensor<1x1x64x16xf32>
    %se = tb.input %de imap [0, -1, -1] fordim 1 : tensor<2x4x1x1xf32> -> !tb.stensor<1x1x1x1xf32>
    %state = tb.carried : !tb.stensor<1x1x64x16xf32>
    %d = tb.mul %state, %se : (!tb.stensor<1x1x64x16xf32>, !tb.stensor<1x1x1x1xf32>) -> !tb.stensor<1x1x64x16xf32>
    %n = tb.add %d, %m : (!tb.stensor<1x1x64x16xf32>, !tb.stensor<1x1x64x16xf32>) -> !tb.stensor<1x1x64x16xf32>
    %last = tb.carry %n to %state : (!tb.stensor<1x1x64x16xf32>, !tb.stensor<1x1x64x16xf32>) -> !tb.stensor<1x1x64x16xf32>
    %b = tb.cast %state : !tb.stensor<1x1x64x16xf32> -> !tb.stensor<1x1x64x16xbf16>
    tb.output %b omap [0, -1, -1] fordim 1 : !tb.stensor<1x1x64x16xbf16> -> tensor<2x4x64x16xbf16>
  } : (tensor<2x4x64x64xbf16>, tensor<2x4x64x16xbf16>, tensor<2x4x1x1xf32>) -> tensor<2x4x64x16xbf16>
  func.return %o : tensor<2x4x64x16xbf16>
}
