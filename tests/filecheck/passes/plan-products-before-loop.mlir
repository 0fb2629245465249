// The queries' projection is the same in all iterations: products before the loop need shared memory beside what they read.
// RUN: mg-opt --transpile %s | filecheck %s

// CHECK: sched.kernel
func.func @f(%0: tensor<1x128x768xbf16>, %1: tensor<12x768x64xbf16>, %2: tensor<12x1x64xbf16>, %3: tensor<12x64x1500xbf16>, %4: tensor<12x1500x64xbf16>) -> tensor<12x128x64xbf16, #cute.layout<(12,128,64):(64,768,1)>> {
  %5 = kn.customized %0, %1, %2, %3, %4 grid [12, 2, 1] block [128, 1, 1] forloop 25 {
  ^bb0(%6: tensor<1x128x768xbf16>, %7: tensor<12x768x64xbf16>, %8: tensor<12x1x64xbf16>, %9: tensor<12x64x1500xbf16>, %10: tensor<12x1500x64xbf16>):
    %11 = tb.input %6 imap [-1, 1, -1] : tensor<1x128x768xbf16> -> !tb.stensor<1x64x768xbf16>
    %12 = tb.input %7 imap [0, -1, -1] : tensor<12x768x64xbf16> -> !tb.stensor<1x768x64xbf16>
    %13 = tb.matmul %11, %12 : (!tb.stensor<1x64x768xbf16>, !tb.stensor<1x768x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %14 = tb.input %8 imap [0, -1, -1] : tensor<12x1x64xbf16> -> !tb.stensor<1x1x64xbf16>
    %15 = tb.add %13, %14 : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x64x64xbf16>
    %16 = tb.mul_scalar %15 by 1.250000e-01 : !tb.stensor<1x64x64xbf16> -> !tb.stensor<1x64x64xbf16>
    %17 = tb.input %9 imap [0, -1, -1] fordim 2 : tensor<12x64x1500xbf16> -> !tb.stensor<1x64x60xbf16>
    %18 = tb.matmul %16, %17 : (!tb.stensor<1x64x64xbf16>, !tb.stensor<1x64x60xbf16>) -> !tb.stensor<1x64x60xf32>
    %max, %fall = tb.reduction_max %18 dim 2 : !tb.stensor<1x64x60xf32> -> (!tb.stensor<1x64x1xf32>, !tb.stensor<1x64x1xf32>)
    %19 = tb.sub %18, %max : (!tb.stensor<1x64x60xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x60xf32>
    %rescale = tb.exp %fall : !tb.stensor<1x64x1xf32> -> !tb.stensor<1x64x1xf32>
    %20 = tb.exp %19 : !tb.stensor<1x64x60xf32> -> !tb.stensor<1x64x60xbf16>
    %21 = tb.input %10 imap [0, -1, -1] fordim 1 : tensor<12x1500x64xbf16> -> !tb.stensor<1x60x64xbf16>
    %22 = tb.matmul %20, %21 : (!tb.stensor<1x64x60xbf16>, !tb.stensor<1x60x64xbf16>) -> !tb.stensor<1x64x64xf32>
    %23 = tb.forloop_accum_rescale none %22 by %rescale : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x64xf32>
    %24 = tb.forloop_accum_rescale sum %20 by %rescale : (!tb.stensor<1x64x60xbf16>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x1xf32>
    %25 = tb.div %23, %24 : (!tb.stensor<1x64x64xf32>, !tb.stensor<1x64x1xf32>) -> !tb.stensor<1x64x64xbf16>
    tb.output %25 omap [0, 1, -1] : !tb.stensor<1x64x64xbf16> -> tensor<12x128x64xbf16, #cute.layout<(12,128,64):(64,768,1)>>
  } : (tensor<1x128x768xbf16>, tensor<12x768x64xbf16>, tensor<12x1x64xbf16>, tensor<12x64x1500xbf16>, tensor<12x1500x64xbf16>) -> tensor<12x128x64xbf16, #cute.layout<(12,128,64):(64,768,1)>>
  func.return %5 : tensor<12x128x64xbf16, #cute.layout<(12,128,64):(64,768,1)>>
}
