// A softmax of rows of an odd number of columns: whole vectors that start anywhere come to registers, and exponentials
// are computed again behind their sum, of the numbers as they were loaded: several blocks share a multiprocessor.
// RUN: mg-opt --plan="tiles=written" --transpile %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: sed '/sched.epilogue {/{n;/sched.barrier/d}' %t.mlir | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix RACE

// CHECK:       sched.copy %dx_tile to %row by <128, vector 8, order [1, 0]> iteration 0 within [1]
// CHECK:       sched.forloop 1
// CHECK:         %[[MASKED:row[_0-9]+]] = sched.mask %{{.*}} to %{{.*}} with -inf {{.*}} : !sched.tile<1x1008xf16, {{.*}} to !sched.tile<1x1008xf16,
// CHECK:         sched.reduce %[[MASKED]] to %max_parts combine max
// CHECK:         %[[MAX:max[_0-9]+]], %{{.*}} = sched.reduce %max_parts
// CHECK:         %[[ROW:row[_0-9]+]] = sched.renew %[[MASKED]] after %[[MAX]]
// CHECK-NEXT:    %[[E:e[_0-9]+]] = sched.map sub %[[ROW]], %[[MAX]] to %e then [scaled_exp(1.0)]
// CHECK-NEXT:    sched.reduce %[[E]] to %sum_parts
// CHECK-NEXT:    sched.barrier
// CHECK:         %[[SUM:sum[_0-9]+]] = sched.reduce %sum_parts to %{{.*}} then [reciprocal]
// CHECK:         %[[AGAIN:row[_0-9]+]] = sched.renew %[[ROW]] after %[[SUM]]
// CHECK-NEXT:    %[[F:e[_0-9]+]] = sched.map sub %[[AGAIN]], %[[MAX]] to %{{.*}} then [scaled_exp(1.0)]
// CHECK-NEXT:    sched.map mul %[[F]], %[[SUM]] to %result
// RACE: read after write: 'sched.copy' {{.*}} of the epilogue{{.*}} reads %result
// What a thread stores of its own vector and of the next one, others have computed.
// CHECK:       sched.epilogue {
// CHECK-NEXT:    sched.barrier
// CHECK-NEXT:    sched.copy %result to %o_tile by <128, vector 8, order [1, 0]> within [1]
func.func @softmax(%x: tensor<200x1003xf16>) -> tensor<200x1003xf16, #cute.layout<(200,1003):(1003,1)>> {
  %o = kn.customized %x grid [200, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<200x1003xf16>):
    %row = tb.input %dx imap [0, -1, -1] : tensor<200x1003xf16> -> !tb.stensor<1x1008xf16>
    %max, %fall = tb.reduction_max %row dim 1 : !tb.stensor<1x1008xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %below = tb.sub %row, %max : (!tb.stensor<1x1008xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1008xf32>
    %e = tb.exp %below : !tb.stensor<1x1008xf32> -> !tb.stensor<1x1008xf32>
    %sum = tb.reduction %e dim 1 : !tb.stensor<1x1008xf32> -> !tb.stensor<1x1xf32>
    %result = tb.div %e, %sum : (!tb.stensor<1x1008xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x1008xf16>
    tb.output %result omap [0, -1, -1] : !tb.stensor<1x1008xf16> -> tensor<200x1003xf16, #cute.layout<(200,1003):(1003,1)>>
  } : (tensor<200x1003xf16>) -> tensor<200x1003xf16, #cute.layout<(200,1003):(1003,1)>>
  func.return %o : tensor<200x1003xf16, #cute.layout<(200,1003):(1003,1)>>
}
