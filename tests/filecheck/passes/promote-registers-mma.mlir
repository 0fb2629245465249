// Attention as one operator: what stands between the products stays in registers.
// RUN: mg-opt --plan="tiles=written loads=cp_async online-softmax=false" --transpile %s | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | filecheck %s --check-prefix ONLINE
// RUN: mg-opt --plan="tiles=written loads=cp_async online-softmax=false" %unpromoted %s | filecheck %s --check-prefix MEMORY

// One barrier an iteration, that of the pipeline.  Rows lie in one warp; the scores' registers take
// the exponentials, lanes sum their own parts of rows, and the left operand of the second product
// is what the first one left, rounded.
// CHECK:      %part = sched.empty : !sched.tile<1x64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
// CHECK:      %sum = sched.empty : !sched.tile<1x64x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>>
// CHECK:      sched.forloop 16 carrying
// CHECK-NEXT: ^bb0(
// CHECK-NEXT:   sched.wait
// CHECK-NEXT:   sched.barrier
// CHECK-NOT:    sched.barrier
// CHECK:        sched.mma %sq, %sk to %weights{{[_0-9]*}} ldmatrix [true, true]
// CHECK-NEXT:   sched.map identity %weights{{[_0-9]*}} to %weights{{[_0-9]*}} then [scaled_exp(0.125)]
// CHECK-NEXT:   %weights{{[_0-9]*}} = sched.empty : !sched.tile<1x64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
// CHECK-NEXT:   sched.map identity %weights{{[_0-9]*}} to %weights{{[_0-9]*}}
// CHECK-NEXT:   sched.mma %weights{{[_0-9]*}}, %sv to %part{{[_0-9]*}} ldmatrix [false, true]
// CHECK-NEXT:   sched.reduce %weights{{[_0-9]*}} to %sum{{[_0-9]*}} then [accum]
// CHECK-NEXT: sched.yield
// CHECK-NEXT: }
// CHECK:      sched.epilogue {
// CHECK-NEXT:   %sum{{[_0-9]*}} = sched.empty
// CHECK-NEXT:   sched.reduce %sum{{[_0-9]*}} to %sum{{[_0-9]*}} then [reciprocal]
// CHECK-NEXT:   sched.map mul %part{{[_0-9]*}}, %sum{{[_0-9]*}} to %part{{[_0-9]*}}
// CHECK-NEXT:   sched.store %part{{[_0-9]*}} to %o_tile
// CHECK-NEXT: }

// The sums are rescaled where they are, products are added to them, and the scaling of the scores
// is left to the exponentials.
// ONLINE:      sched.fill %max with -inf
// ONLINE:      sched.forloop 16 carrying
// ONLINE-NEXT: ^bb0(
// ONLINE-NEXT:   sched.wait
// ONLINE-NEXT:   sched.barrier
// ONLINE-NOT:    sched.barrier
// ONLINE:        sched.mma %sq, %sk to %scaled
// ONLINE-NEXT:   %fall = sched.empty
// ONLINE-NEXT:   sched.reduce %scaled{{[_0-9]*}} to %max{{[_0-9]*}} difference %fall{{[_0-9]*}} then [accum] combine max
// ONLINE-DAG:    sched.map mul_scalar(0.125) %fall{{[_0-9]*}} to %fall{{[_0-9]*}} then [exp]
// ONLINE-DAG:    sched.map scaled_exp_difference(0.125) %scaled{{[_0-9]*}}, %max{{[_0-9]*}} to %scaled{{[_0-9]*}}
// ONLINE:        sched.map mul %part{{[_0-9]*}}, %fall{{[_0-9]*}} to %part{{[_0-9]*}}
// ONLINE-NEXT:   sched.mma %{{.*}}, %sv to %part{{[_0-9]*}} ldmatrix [false, true]
// ONLINE:        sched.map mul_add %sum{{[_0-9]*}}, %fall{{[_0-9]*}}, %{{.*}} to %sum{{[_0-9]*}} : {{.*}} to !sched.tile<1x64x4xf32
// ONLINE-NEXT: sched.yield
// ONLINE-NEXT: }

// MEMORY:     sched.store %{{.*}} to %weights then [mul_scalar(0.125), exp]
// MEMORY-NOT: sched.map {{.*}}tiled_mma

func.func @attention(%q: tensor<2x128x64xf16>, %k: tensor<2x64x1024xf16>, %v: tensor<2x1024x64xf16>) -> tensor<2x128x64xf16> {
  %o = kn.customized %q, %k, %v grid [2, 2, 1] block [128, 1, 1] forloop 16 {
  ^bb0(%dq: tensor<2x128x64xf16>, %dk: tensor<2x64x1024xf16>, %dv: tensor<2x1024x64xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<2x128x64xf16> -> !tb.stensor<1x64x64xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<2x64x1024xf16> -> !tb.stensor<1x64x64xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<2x1024x64xf16> -> !tb.stensor<1x64x64xf16>
    %scores = tb.matmul %sq, %sk : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %scaled = tb.mul_scalar %scores by 0.125 : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %weights = tb.exp %scaled : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %values = tb.matmul %weights, %sv : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x64xf16>) -> !tb.stensor<1x64x64xf16>
    %part = tb.forloop_accum none %values : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    %sum = tb.forloop_accum sum %weights : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x1xf16>
    %mean = tb.div %part, %sum : (!tb.stensor<1x64x64xf16>, !tb.stensor<1x64x1xf16>) -> !tb.stensor<1x64x64xf16>
    tb.output %mean omap [0, 1, -1] : !tb.stensor<1x64x64xf16> -> tensor<2x128x64xf16>
  } : (tensor<2x128x64xf16>, tensor<2x64x1024xf16>, tensor<2x1024x64xf16>) -> tensor<2x128x64xf16>
  func.return %o : tensor<2x128x64xf16>
}
