// RUN: mg-opt --transpile %s | filecheck %s
// What is added to scores, and what multiplies rows at the end, is loaded as threads hold the products, which stay in
// registers: in shared memory their sums would not fit beside the rings.

// CHECK-NOT:  sched.alloc {{.*}} : !sched.shared<1x128x128xf32
// CHECK:      sched.forloop 8
// CHECK:        %[[SCORES:.*]] = sched.warpgroup_wait {{.*}} : !sched.tile<1x128x64xf32
// CHECK:        %[[MASK:.*]] = sched.load %smask to %{{.*}} to !sched.tile<1x128x64xf32, #cute.tiled_mma<
// CHECK-NEXT:   sched.map add %[[SCORES]], %[[MASK]] to %[[SCORES]]
// CHECK:      sched.epilogue
// CHECK:        sched.load %salive to %{{.*}} to !sched.tile<1x128x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<
func.func @attention(%q: tensor<32x512x128xbf16>, %k: tensor<32x128x512xbf16>, %mask: tensor<1x512x512xf32>,
                     %v: tensor<32x512x128xbf16>, %alive: tensor<1x512x1xf32>) -> tensor<32x512x128xbf16> {
  %o = kn.customized %q, %k, %mask, %v, %alive grid [32, 4, 1] block [256, 1, 1] forloop 8 plan <tiles = written> {
  ^bb0(%dq: tensor<32x512x128xbf16>, %dk: tensor<32x128x512xbf16>, %dmask: tensor<1x512x512xf32>, %dv: tensor<32x512x128xbf16>, %dalive: tensor<1x512x1xf32>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<32x512x128xbf16> -> !tb.stensor<1x128x128xbf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<32x128x512xbf16> -> !tb.stensor<1x128x64xbf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<1x128x128xbf16>, !tb.stensor<1x128x64xbf16>) -> !tb.stensor<1x128x64xf32>
    %smask = tb.input %dmask imap [-1, 1, -1] fordim 2 : tensor<1x512x512xf32> -> !tb.stensor<1x128x64xf32>
    %t = tb.add %s, %smask : (!tb.stensor<1x128x64xf32>, !tb.stensor<1x128x64xf32>) -> !tb.stensor<1x128x64xf32>
    %max, %fall = tb.reduction_max %t dim 2 : !tb.stensor<1x128x64xf32> -> (!tb.stensor<1x128x1xf32>, !tb.stensor<1x128x1xf32>)
    %d = tb.sub %t, %max : (!tb.stensor<1x128x64xf32>, !tb.stensor<1x128x1xf32>) -> !tb.stensor<1x128x64xf32>
    %r = tb.exp %fall : !tb.stensor<1x128x1xf32> -> !tb.stensor<1x128x1xf32>
    %p = tb.exp %d : !tb.stensor<1x128x64xf32> -> !tb.stensor<1x128x64xbf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<32x512x128xbf16> -> !tb.stensor<1x64x128xbf16>
    %pv = tb.matmul %p, %sv : (!tb.stensor<1x128x64xbf16>, !tb.stensor<1x64x128xbf16>) -> !tb.stensor<1x128x128xf32>
    %a = tb.forloop_accum_rescale none %pv by %r : (!tb.stensor<1x128x128xf32>, !tb.stensor<1x128x1xf32>) -> !tb.stensor<1x128x128xf32>
    %salive = tb.input %dalive imap [-1, 1, -1] : tensor<1x512x1xf32> -> !tb.stensor<1x128x1xf32>
    %m = tb.mul %a, %salive : (!tb.stensor<1x128x128xf32>, !tb.stensor<1x128x1xf32>) -> !tb.stensor<1x128x128xf32>
    %l = tb.forloop_accum_rescale sum %p by %r : (!tb.stensor<1x128x64xbf16>, !tb.stensor<1x128x1xf32>) -> !tb.stensor<1x128x1xf32>
    %n = tb.div %m, %l : (!tb.stensor<1x128x128xf32>, !tb.stensor<1x128x1xf32>) -> !tb.stensor<1x128x128xbf16>
    tb.output %n omap [0, 1, -1] : !tb.stensor<1x128x128xbf16> -> tensor<32x512x128xbf16>
  } : (tensor<32x512x128xbf16>, tensor<32x128x512xbf16>, tensor<1x512x512xf32>, tensor<32x512x128xbf16>, tensor<1x512x1xf32>) -> tensor<32x512x128xbf16>
  func.return %o : tensor<32x512x128xbf16>
}
