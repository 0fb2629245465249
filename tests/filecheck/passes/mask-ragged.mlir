// RUN: mg-opt --mask-ragged %s | filecheck %s
// Masks stand only where elements that do not exist would change a result.

// exp(0) is 1, so that the padding of %e would add to the product; that of %sw is zero.
// CHECK-LABEL: @contracted
// CHECK: %e = tb.exp %sx
// CHECK-NEXT: %[[MASKED:.*]] = tb.mask %e with 0.000000e+00 outside [#tb.ragged<dim 1, extent 50, step 50, blocks [1, 1, 1], tile 17, loop>]
// CHECK-NEXT: tb.matmul %[[MASKED]], %sw
// CHECK-NOT: tb.mask
func.func @contracted(%x: tensor<16x50xf16>, %w: tensor<50x16xf16>) -> tensor<16x16xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 3 {
  ^bb0(%dx: tensor<16x50xf16>, %dw: tensor<50x16xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x50xf16> -> !tb.stensor<16x17xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<50x16xf16> -> !tb.stensor<17x16xf16>
    %e = tb.exp %sx : !tb.stensor<16x17xf16> -> !tb.stensor<16x17xf16>
    %m = tb.matmul %e, %sw : (!tb.stensor<16x17xf16>, !tb.stensor<17x16xf16>) -> !tb.stensor<16x16xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x50xf16>, tensor<50x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}

// Zeros stay zeros under squares and sums; rows that do not exist are never combined.
// CHECK-LABEL: @zeros
// CHECK-NOT: tb.mask
func.func @zeros(%x: tensor<15x50xf16>) -> tensor<15x1xf16> {
  %o = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 3 {
  ^bb0(%dx: tensor<15x50xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<15x50xf16> -> !tb.stensor<8x17xf16>
    %s = tb.square %sx : !tb.stensor<8x17xf16> -> !tb.stensor<8x17xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<8x17xf16> -> !tb.stensor<8x17xf16>
    %r = tb.reduction %a dim 1 : !tb.stensor<8x17xf16> -> !tb.stensor<8x1xf16>
    %e = tb.exp %r : !tb.stensor<8x1xf16> -> !tb.stensor<8x1xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<8x1xf16> -> tensor<15x1xf16>
  } : (tensor<15x50xf16>) -> tensor<15x1xf16>
  func.return %o : tensor<15x1xf16>
}

// 0 times what is broadcast may be NaN, and 0 / 0 is: neither may be added to what exists.
// CHECK-LABEL: @not_provably_zero
// CHECK: %p = tb.mul
// CHECK-NEXT: %[[P:.*]] = tb.mask %p
// CHECK-NEXT: tb.forloop_accum none %[[P]]
// CHECK: %q = tb.div
// CHECK-NEXT: %[[Q:.*]] = tb.mask %q
// CHECK-NEXT: tb.forloop_accum none %[[Q]]
func.func @not_provably_zero(%x: tensor<15x8xf16>, %w: tensor<1x8xf16>) -> (tensor<8x8xf16>, tensor<8x8xf16>) {
  %o, %u = kn.customized %x, %w grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<15x8xf16>, %dw: tensor<1x8xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<15x8xf16> -> !tb.stensor<8x8xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<1x8xf16> -> !tb.stensor<1x8xf16>
    %p = tb.mul %sx, %sw : (!tb.stensor<8x8xf16>, !tb.stensor<1x8xf16>) -> !tb.stensor<8x8xf16>
    %a = tb.forloop_accum none %p : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %q = tb.div %sx, %sx : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %b = tb.forloop_accum none %q : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<15x8xf16>, tensor<1x8xf16>) -> (tensor<8x8xf16>, tensor<8x8xf16>)
  func.return %o, %u : tensor<8x8xf16>, tensor<8x8xf16>
}

// A mask comes between the functions of an epilogue and its accumulation.
// CHECK-LABEL: @in_an_epilogue
// CHECK: %[[E:.*]] = tb.square %sx then [exp] : !tb.stensor<8x8xf16>
// CHECK-NEXT: tb.mask %[[E]] with 0.000000e+00 outside [#tb.ragged<dim 0, extent 15, step 15, blocks [1, 1, 1], tile 8, loop>] then [accum]
func.func @in_an_epilogue(%x: tensor<15x8xf16>) -> tensor<8x8xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<15x8xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<15x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.square %sx then [exp, accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %e omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<15x8xf16>) -> tensor<8x8xf16>
  func.return %o : tensor<8x8xf16>
}

// Sums of integers are masked as well: the last iteration has one row fewer to add.
// CHECK-LABEL: @integers
// CHECK: %m = tb.matmul %sx, %sw
// CHECK-NEXT: %[[MASKED:.*]] = tb.mask %m with 0.000000e+00 outside [#tb.ragged<dim 0, extent 31, step 31, blocks [1, 1, 1], tile 16, loop>] : !tb.stensor<16x16xi32> -> !tb.stensor<16x16xi32>
// CHECK-NEXT: tb.forloop_accum none %[[MASKED]]
func.func @integers(%x: tensor<31x32xi8>, %w: tensor<32x16xi8>) -> tensor<16x16xi32> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<31x32xi8>, %dw: tensor<32x16xi8>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<31x32xi8> -> !tb.stensor<16x32xi8>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<32x16xi8> -> !tb.stensor<32x16xi8>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x32xi8>, !tb.stensor<32x16xi8>) -> !tb.stensor<16x16xi32>
    %a = tb.forloop_accum none %m : !tb.stensor<16x16xi32> -> !tb.stensor<16x16xi32>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<16x16xi32> -> tensor<16x16xi32>
  } : (tensor<31x32xi8>, tensor<32x16xi8>) -> tensor<16x16xi32>
  func.return %o : tensor<16x16xi32>
}

// Products of the last 28 keys of 100 are masked before they are scaled: the maximum, and exponentials below it, need no other mask.
// CHECK-LABEL: @rows
// CHECK: %s_1 = tb.mask %s with -inf outside [#tb.ragged<dim 1, extent 100, step 128, blocks [1, 1, 1], tile 64, loop>]
// CHECK-NEXT: %scaled = tb.mul_scalar %s_1
// CHECK-NEXT: tb.reduction_max %scaled
// CHECK-NOT: tb.mask
func.func @rows(%q: tensor<64x32xf16>, %k: tensor<32x100xf16>) -> tensor<64x1xf32> {
  %o = kn.customized %q, %k grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dq: tensor<64x32xf16>, %dk: tensor<32x100xf16>):
    %sq = tb.input %dq imap [-1, -1, -1] : tensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<32x100xf16> -> !tb.stensor<32x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %scaled = tb.mul_scalar %s by 0.5 : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m, %fall = tb.reduction_max %scaled dim 1 : !tb.stensor<64x64xf16> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %below = tb.sub %scaled, %m : (!tb.stensor<64x64xf16>, !tb.stensor<64x1xf32>) -> !tb.stensor<64x64xf32>
    %e = tb.exp %below : !tb.stensor<64x64xf32> -> !tb.stensor<64x64xf32>
    %r = tb.exp %fall : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    %sum = tb.forloop_accum_rescale sum %e by %r : (!tb.stensor<64x64xf32>, !tb.stensor<64x1xf32>) -> !tb.stensor<64x1xf32>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<64x1xf32> -> tensor<64x1xf32>
  } : (tensor<64x32xf16>, tensor<32x100xf16>) -> tensor<64x1xf32>
  func.return %o : tensor<64x1xf32>
}

// Keys behind the last of 100 are later than each of as many queries: that mask has minus infinity there, and no other stands behind it.
// CHECK-LABEL: @causal
// CHECK: tb.mask %s with -inf where
// CHECK-NOT: tb.mask
func.func @causal(%q: tensor<100x32xf16>, %k: tensor<32x100xf16>) -> tensor<100x1xf32> {
  %o = kn.customized %q, %k grid [2, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dq: tensor<100x32xf16>, %dk: tensor<32x100xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<100x32xf16> -> !tb.stensor<64x32xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<32x100xf16> -> !tb.stensor<32x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %c = tb.mask %s with -inf where affine_set<(i, j) : (i - j >= 0)> of [100, 100] imap [0, -1, -1] fordim 1 : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m, %fall = tb.reduction_max %c dim 1 : !tb.stensor<64x64xf16> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %a = tb.forloop_accum max %m : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    tb.output %a omap [0, -1, -1] : !tb.stensor<64x1xf32> -> tensor<100x1xf32>
  } : (tensor<100x32xf16>, tensor<32x100xf16>) -> tensor<100x1xf32>
  func.return %o : tensor<100x1xf32>
}

// The last of 130 queries sees more than 100 keys.
// CHECK-LABEL: @more_queries
// CHECK: tb.mask %s with -inf where
// CHECK: tb.mask %c with -inf outside
func.func @more_queries(%q: tensor<130x32xf16>, %k: tensor<32x100xf16>) -> tensor<130x1xf32> {
  %o = kn.customized %q, %k grid [3, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dq: tensor<130x32xf16>, %dk: tensor<32x100xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<130x32xf16> -> !tb.stensor<64x32xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<32x100xf16> -> !tb.stensor<32x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %c = tb.mask %s with -inf where affine_set<(i, j) : (i - j >= 0)> of [130, 100] imap [0, -1, -1] fordim 1 : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m, %fall = tb.reduction_max %c dim 1 : !tb.stensor<64x64xf16> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %a = tb.forloop_accum max %m : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    tb.output %a omap [0, -1, -1] : !tb.stensor<64x1xf32> -> tensor<130x1xf32>
  } : (tensor<130x32xf16>, tensor<32x100xf16>) -> tensor<130x1xf32>
  func.return %o : tensor<130x1xf32>
}
