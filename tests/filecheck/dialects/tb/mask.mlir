// RUN: mg-opt %s | mg-opt | filecheck %s
// Masks of places in the tensor that all tiles together are.

// Three blocks of 64 queries each, four iterations of 128 keys.
// CHECK-LABEL: @causal
// CHECK: tb.mask %{{.*}} with -inf where affine_set<(d0, d1) : ((d0 + (d1 * -1)) >= 0)> of [192, 512] imap [0, -1, -1] fordim 1 : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>
// What no loop moves, and an epilogue.
// CHECK: tb.mask %{{.*}} with 0.000000e+00 where affine_set<(d0, d1) : (d0 >= 0, ((d1 * -1) + 2) >= 0)> of [192, 1] imap [0, -1, -1] then [square] : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
func.func @causal(%x: tensor<192x512xf32>) -> tensor<192x1xf32> {
  %o = kn.customized %x grid [3, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<192x512xf32>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<192x512xf32> -> !tb.stensor<64x128xf32>
    %m = tb.mask %s with -inf where affine_set<(i, j) : (i - j >= 0)> of [192, 512] imap [0, -1, -1] fordim 1 : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>
    %max, %fall = tb.reduction_max %m dim 1 from -3.0 : !tb.stensor<64x128xf32> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %l = tb.forloop_accum max %max : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    %k = tb.mask %l with 0.0 where affine_set<(i, j) : (i >= 0, 2 - j >= 0)> of [192, 1] imap [0, -1, -1] then [square] : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    tb.output %k omap [0, -1, -1] : !tb.stensor<64x1xf32> -> tensor<192x1xf32>
  } : (tensor<192x512xf32>) -> tensor<192x1xf32>
  func.return %o : tensor<192x1xf32>
}
