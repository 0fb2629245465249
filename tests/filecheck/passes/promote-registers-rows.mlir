// A tile that a loop loads comes into registers before its long rows are reduced: all threads share
// the row, and what is computed of it next does not read shared memory again.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | filecheck %s

// CHECK-LABEL: sched.kernel @log_sum_exp_custom0
// CHECK:      sched.forloop 4 carrying
// CHECK:        [[ROW:%.*]] = sched.map identity %
// CHECK-NEXT:   sched.reduce [[ROW]] to %max_parts combine max dim 1 contiguous parts 
// CHECK-NEXT:   sched.barrier
// CHECK:        sched.reduce %max_parts to %max{{[_0-9]*}} difference
// CHECK:        sched.map sub [[ROW]], %max{{[_0-9]*}} to {{.*}} then [exp]
// What only some threads would write goes to device memory through shared memory.
// CHECK:      sched.epilogue {
// CHECK:        sched.store %{{.*}} to [[OUT:%.*]] : !sched.tile<1x1xf32
// CHECK-NEXT:   sched.copy [[OUT]] to
func.func @log_sum_exp(%x: tensor<64x16384xf16>) -> tensor<64x1xf32> {
  %y = kn.customized %x grid [64, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x16384xf16>):
    %t = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<64x16384xf16> -> !tb.stensor<1x4096xf16>
    %max, %fall = tb.reduction_max %t dim 1 : !tb.stensor<1x4096xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %largest = tb.forloop_accum max %max : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %d = tb.sub %t, %max : (!tb.stensor<1x4096xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x4096xf32>
    %rescale = tb.exp %fall : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %e = tb.exp %d : !tb.stensor<1x4096xf32> -> !tb.stensor<1x4096xf32>
    %s = tb.forloop_accum_rescale sum %e by %rescale : (!tb.stensor<1x4096xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1xf32>
    %l = tb.log %s : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %r = tb.add %l, %largest : (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1xf32>
    tb.output %r omap [0, -1, -1] : !tb.stensor<1x1xf32> -> tensor<64x1xf32>
  } : (tensor<64x16384xf16>) -> tensor<64x1xf32>
  func.return %y : tensor<64x1xf32>
}
