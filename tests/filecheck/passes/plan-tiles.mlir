// Of several kernels those that cannot be cut stay as they are, and a note says why; the others are partitioned anew.
// RUN: mg-opt --plan --retile --split-input-file %s 2>%t.notes | filecheck %s
// RUN: filecheck %s --check-prefix NOTE < %t.notes

// NOTE: --plan: note: 'kn.customized' %m stays as it is: 'tb.reduction_max' %max is a running maximum, so that its kernel cannot be cut otherwise
// NOTE-NOT: note

// CHECK-LABEL: func.func @maximum_and_product
// CHECK: %m = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {{.*}}{
// CHECK: tb.reduction_max %sx dim 1
// CHECK: %p = kn.customized %x, %w grid [{{[0-9][0-9]+}}, 1, 1]
// CHECK: func.return %m, %p
func.func @maximum_and_product(%x: tensor<64x64xf16>, %w: tensor<64x4096xf16>) -> (tensor<64x1xf32>, tensor<64x4096xf16>) {
  %m = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x64xf16> -> !tb.stensor<64x16xf16>
    %max, %fall = tb.reduction_max %sx dim 1 : !tb.stensor<64x16xf16> -> (!tb.stensor<64x1xf32>, !tb.stensor<64x1xf32>)
    %a = tb.forloop_accum max %max : !tb.stensor<64x1xf32> -> !tb.stensor<64x1xf32>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<64x1xf32> -> tensor<64x1xf32>
  } : (tensor<64x64xf16>) -> tensor<64x1xf32>
  %p = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>, %dw: tensor<64x4096xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] : tensor<64x4096xf16> -> !tb.stensor<64x2048xf16>
    %t = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x2048xf16>) -> !tb.stensor<64x2048xf16>
    tb.output %t omap [1, -1, -1] : !tb.stensor<64x2048xf16> -> tensor<64x4096xf16>
  } : (tensor<64x64xf16>, tensor<64x4096xf16>) -> tensor<64x4096xf16>
  func.return %m, %p : tensor<64x1xf32>, tensor<64x4096xf16>
}

// -----

// A prime number of keys: tiles of a multiple of 16, of which the last is smaller, divided over blocks as even ones are.
// CHECK-LABEL: func.func @ragged_keys
// CHECK: kn.customized %q, %k, %v grid [{{[0-9]+}}, {{[0-9]+}}, {{[0-9]+}}] {{.*}}{
// CHECK: tb.input %dk imap [{{.*}}1{{.*}}] fordim 1 : tensor<64x397xf16> -> !tb.stensor<64x{{16|32|48|64|80|96|112|128}}xf16>
// CHECK: %o = kn.customized
func.func @ragged_keys(%q: tensor<64x64xf16>, %k: tensor<64x397xf16>, %v: tensor<397x64xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %q, %k, %v grid [2, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dq: tensor<64x64xf16>, %dk: tensor<64x397xf16>, %dv: tensor<397x64xf16>):
    %sq = tb.input %dq imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<32x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x397xf16> -> !tb.stensor<64x50xf16>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<397x64xf16> -> !tb.stensor<50x64xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<32x64xf16>, !tb.stensor<64x50xf16>) -> !tb.stensor<32x50xf16>
    %e = tb.exp %s : !tb.stensor<32x50xf16> -> !tb.stensor<32x50xf16>
    %m = tb.matmul %e, %sv : (!tb.stensor<32x50xf16>, !tb.stensor<50x64xf16>) -> !tb.stensor<32x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<32x64xf16> -> !tb.stensor<32x64xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<32x50xf16> -> !tb.stensor<32x1xf16>
    %r = tb.div %a, %l : (!tb.stensor<32x64xf16>, !tb.stensor<32x1xf16>) -> !tb.stensor<32x64xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<32x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x397xf16>, tensor<397x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}

// -----

// An exponential under a running maximum is not computed in a kernel before; the rows' loop is divided over blocks.
// CHECK-LABEL: func.func @softmax_of_loaded_scores
// CHECK: kn.customized %s, %v grid [{{[48]}}, {{[0-9]+}}, 1] {{.*}}{
// CHECK: %o = kn.customized
func.func @softmax_of_loaded_scores(%s: tensor<16x4096xf16>, %v: tensor<4096x512xf16>) -> tensor<16x512xf16> {
  %o = kn.customized %s, %v grid [8, 1, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%ds: tensor<16x4096xf16>, %dv: tensor<4096x512xf16>):
    %ss = tb.input %ds imap [-1, -1, -1] fordim 1 : tensor<16x4096xf16> -> !tb.stensor<16x64xf16>
    %max, %fall = tb.reduction_max %ss dim 1 : !tb.stensor<16x64xf16> -> (!tb.stensor<16x1xf32>, !tb.stensor<16x1xf32>)
    %d = tb.sub %ss, %max : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf32>
    %rescale = tb.exp %fall : !tb.stensor<16x1xf32> -> !tb.stensor<16x1xf32>
    %e = tb.exp %d : !tb.stensor<16x64xf32> -> !tb.stensor<16x64xf16>
    %l = tb.forloop_accum_rescale sum %e by %rescale : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x1xf32>
    %sv = tb.input %dv imap [1, -1, -1] fordim 0 : tensor<4096x512xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %e, %sv : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum_rescale none %m by %rescale : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf16>
    %r = tb.div %a, %l : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf32>) -> !tb.stensor<16x64xf16>
    tb.output %r omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x512xf16>
  } : (tensor<16x4096xf16>, tensor<4096x512xf16>) -> tensor<16x512xf16>
  func.return %o : tensor<16x512xf16>
}

// -----

// 56 rows have a tile of a warp group's 64, as 50 have: nothing is loaded behind them.
// CHECK-LABEL: func.func @rows_of_most_of_a_group
// CHECK: tb.input %dx imap [{{.*}}] fordim 1 {{.*}} -> !tb.stensor<64x{{[0-9]+}}xf16>
// CHECK: tb.output {{.*}} : !tb.stensor<64x{{[0-9]+}}xf16> -> tensor<56x9216xf16>
func.func @rows_of_most_of_a_group(%x: tensor<56x2304xf16>, %w: tensor<2304x9216xf16>) -> tensor<56x9216xf16> {
  %o = kn.customized %x, %w grid [144, 1, 1] block [128, 1, 1] forloop 36 {
  ^bb0(%dx: tensor<56x2304xf16>, %dw: tensor<2304x9216xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<56x2304xf16> -> !tb.stensor<56x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<2304x9216xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<56x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<56x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<56x64xf16> -> !tb.stensor<56x64xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<56x64xf16> -> tensor<56x9216xf16>
  } : (tensor<56x2304xf16>, tensor<2304x9216xf16>) -> tensor<56x9216xf16>
  func.return %o : tensor<56x9216xf16>
}
