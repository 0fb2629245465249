// RUN: mg-opt --decompose-threadblock %s | filecheck %s
// What is decomposed already stays as it is.
// RUN: mg-opt --decompose-threadblock --decompose-threadblock %s | filecheck %s

// Sums are fp32; the count of the mean is the tile's last extent times the iterations, 8 * 4.
// CHECK-LABEL: func.func @reducing_accumulators
// CHECK:      %s = tb.input
// CHECK-NEXT: %sum = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %sum_1 = tb.reduction %sum dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x1xf16>
// CHECK-NEXT: %rms = tb.square %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %rms_1 = tb.forloop_accum none %rms : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %rms_2 = tb.reduction %rms_1 dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x1xf32>
// CHECK-NEXT: %rms_3 = tb.mul_scalar %rms_2 by 3.125000e-02 : !tb.stensor<4x1xf32> -> !tb.stensor<4x1xf32>
// CHECK-NEXT: %rms_4 = tb.sqrt %rms_3 : !tb.stensor<4x1xf32> -> !tb.stensor<4x1xf16>
// CHECK-NEXT: %strided = tb.forloop_accum none %s
// CHECK-NEXT: %strided_1 = tb.reduction_to_dimx_strided %strided dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x2xf16>
// CHECK-NEXT: %contiguous = tb.forloop_accum none %s
// CHECK-NEXT: %contiguous_1 = tb.reduction_to_dimx_contiguous %contiguous dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x2xf16>
// CHECK-NEXT: %plain = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
func.func @reducing_accumulators(%x: tensor<4x32xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<4x32xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x32xf16> -> !tb.stensor<4x8xf16>
    %sum = tb.forloop_accum sum %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x1xf16>
    %rms = tb.forloop_accum rms %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x1xf16>
    %strided = tb.forloop_accum_sum_to_dimx_strided %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x2xf16>
    %contiguous = tb.forloop_accum_sum_to_dimx_contiguous %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x2xf16>
    %plain = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %plain omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x32xf16>) -> tensor<4x8xf16>
  func.return
}

// The norm of a tile counts the tile's extent only.
// CHECK-LABEL: func.func @norm
// CHECK:      %n = tb.square %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %n_1 = tb.reduction %n dim 1
// CHECK-NEXT: %n_2 = tb.mul_scalar %n_1 by 1.250000e-01
// CHECK-NEXT: %n_3 = tb.sqrt %n_2 : !tb.stensor<4x1xf32> -> !tb.stensor<4x1xf32>
// CHECK-NEXT: %n_4 = tb.div %s, %n_3 : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x8xf16>
func.func @norm(%x: tensor<4x32xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<4x32xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x32xf16> -> !tb.stensor<4x8xf16>
    %n = tb.rms_norm %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %a = tb.forloop_accum none %n : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x32xf16>) -> tensor<4x8xf16>
  func.return
}

// The last of three blocks has 14 of 46 columns, the others 16: each sums 1 for every element.
// CHECK-LABEL: func.func @counted
func.func @counted(%x: tensor<4x46xf16>) -> tensor<4x3xf16> {
  %o = kn.customized %x grid [3, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<4x46xf16>):
    %s = tb.input %dx imap [1, -1, -1] fordim 1 : tensor<4x46xf16> -> !tb.stensor<4x8xf16>
    // CHECK:      %[[SUM:.*]] = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
    // CHECK-NEXT: %[[WHOLE:.*]] = tb.cast %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xi32>
    // CHECK-NEXT: %[[NUMBER:.*]] = tb.cast %[[WHOLE]] : !tb.stensor<4x8xi32> -> !tb.stensor<4x8xf32>
    // CHECK-NEXT: %[[ZERO:.*]] = tb.mul_scalar %[[NUMBER]] by 0.000000e+00 :
    // CHECK-NEXT: %[[ONE:.*]] = tb.add_scalar %[[ZERO]] by 1.000000e+00 :
    // CHECK-NEXT: %[[ONES:.*]] = tb.forloop_accum none %[[ONE]] :
    // CHECK-NEXT: %[[COUNT:.*]] = tb.reduction %[[ONES]] dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x1xf32>
    // CHECK-NEXT: %[[TOTAL:.*]] = tb.reduction %[[SUM]] dim 1 :
    // CHECK-NEXT: tb.div %[[TOTAL]], %[[COUNT]] :
    %m = tb.forloop_accum mean %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x1xf16>
    tb.output %m omap [1, -1, -1] : !tb.stensor<4x1xf16> -> tensor<4x3xf16>
  } : (tensor<4x46xf16>) -> tensor<4x3xf16>
  func.return %o : tensor<4x3xf16>
}
