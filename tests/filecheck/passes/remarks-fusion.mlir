// Kernels and operators that could be one: the same blocks write and read a tensor, a kernel of its own computes element
// by element, or an operator of its own reads what it could be a step of.
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile --remarks -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --decompose-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock --pipeline-loads --remarks -o %t %s 2>&1 | filecheck %s --check-prefix UNFUSED

// UNFUSED: kernel @steps_custom0: %m is read by a 'sched.map' of its own, and not by a step of the 'sched.store' that writes it, since --fuse-threadblock did not run; run it before --lower-threadblock [fusion]
// CHECK-NOT: a step of

// CHECK: remark: kernel @pair_custom0: %first passes through device memory to @pair_custom1, since each block of @pair_custom1 reads only what the same block wrote; write both as one kn.customized [fusion]
// CHECK-NEXT: remark: kernel @pair_custom1: %second passes through device memory to 'kn.square' %o, since 'kn.square' %o is a separate element-wise kernel; compute it in the block, as tb.square, before tb.output [fusion]
func.func @pair(%x: tensor<2112x512xf16>) -> tensor<2112x512xf16> {
  %first = kn.customized %x grid [132, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%d: tensor<2112x512xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<16x512xf16>
    %e = tb.exp %s : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x512xf16> -> tensor<2112x512xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x512xf16>
  %second = kn.customized %first grid [132, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%d: tensor<2112x512xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<16x512xf16>
    %e = tb.sqrt %s : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x512xf16> -> tensor<2112x512xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x512xf16>
  %o = kn.square %second : tensor<2112x512xf16> -> tensor<2112x512xf16>
  func.return %o : tensor<2112x512xf16>
}

// CHECK-NOT: [fusion]
func.func @steps(%x: tensor<2112x512xf16>, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x512xf16>, %dw: tensor<512x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x512xf16>, tensor<512x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}
