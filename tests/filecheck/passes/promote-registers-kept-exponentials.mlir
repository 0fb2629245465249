// Each block of a softmax of few rows has a multiprocessor alone: threads keep the exponentials that their sum is of.
// RUN: mg-opt --plan="tiles=written" --transpile %s | filecheck %s

// CHECK:       %[[MAX:max[_0-9]+]], %{{.*}} = sched.reduce %max_parts
// CHECK:       %[[E:e[_0-9]+]] = sched.map sub %{{.*}}, %[[MAX]] to %e then [scaled_exp(1.0)]
// CHECK:       %[[SUM:sum[_0-9]+]] = sched.reduce %sum_parts to %{{.*}} then [reciprocal]
// CHECK-NEXT:  sched.map mul %[[E]], %[[SUM]] to %result
func.func @softmax(%x: tensor<3x1024xf16>) -> tensor<3x1024xf16> {
  %o = kn.customized %x grid [3, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<3x1024xf16>):
    %row = tb.input %dx imap [0, -1, -1] : tensor<3x1024xf16> -> !tb.stensor<1x1024xf16>
    %max, %fall = tb.reduction_max %row dim 1 : !tb.stensor<1x1024xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %below = tb.sub %row, %max : (!tb.stensor<1x1024xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1024xf32>
    %e = tb.exp %below : !tb.stensor<1x1024xf32> -> !tb.stensor<1x1024xf32>
    %sum = tb.reduction %e dim 1 : !tb.stensor<1x1024xf32> -> !tb.stensor<1x1xf32>
    %result = tb.div %e, %sum : (!tb.stensor<1x1024xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1024xf16>
    tb.output %result omap [0, -1, -1] : !tb.stensor<1x1024xf16> -> tensor<3x1024xf16>
  } : (tensor<3x1024xf16>) -> tensor<3x1024xf16>
  func.return %o : tensor<3x1024xf16>
}
