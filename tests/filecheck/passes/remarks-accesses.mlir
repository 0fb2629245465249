// Accesses that wait for each other, or move little: what a layout would save, and which extents are why.
// RUN: mg-opt --plan=tiles=written --transpile --remarks -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --fuse-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock --pipeline-loads --remarks -o %t %s 2>&1 | filecheck %s --check-prefix PLAIN

// PLAIN: kernel @short_custom0: 'sched.mma' reads %sw with conflicts of 6 ways, 192 wavefronts where its bytes need 32, since S<3,3,4> o (12,128):(128,1) in place of (12,128):(128,1) saves 1280 wavefronts a block; run --plan-swizzle [bank-conflicts]
// CHECK: remark: kernel @short_custom0: 'sched.copy' writes %sx with conflicts of 3 ways, 36 wavefronts where its bytes need 12, since no layout of its rows of 24 bytes that its operators can work with has fewer in all; cut tiles of a multiple of 64 elements along dimension 1 [bank-conflicts]
// CHECK-NEXT: remark: kernel @short_custom0: 'sched.copy' reads %x 8 bytes at a time and not 16, since its tiles have rows of 24 bytes, no multiple of 16; cut tiles of a multiple of 8 elements along its dimension 1 [vectors]
func.func @short(%x: tensor<2112x96xf16>, %w: tensor<96x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x96xf16>, %dw: tensor<96x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x96xf16> -> !tb.stensor<64x12xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<96x1024xf16> -> !tb.stensor<12x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x12xf16>, !tb.stensor<12x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x96xf16>, tensor<96x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK: remark: kernel @boxes_custom0: 'sched.mma' reads %sw with conflicts of 2 ways, 256 wavefronts where its bytes need 128, since its rows of 512 bytes are several boxes of a bulk copy in every layout that has fewer, which take longer than they save; cut tiles of 32 elements along dimension 1 [bank-conflicts]
func.func @boxes(%x: tensor<2112x512xf32>, %w: tensor<512x1024xf32>) -> tensor<2112x1024xf32> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 16 {
  ^bb0(%dx: tensor<2112x512xf32>, %dw: tensor<512x1024xf32>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf32> -> !tb.stensor<64x32xf32>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf32> -> !tb.stensor<32x128xf32>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x32xf32>, !tb.stensor<32x128xf32>) -> !tb.stensor<64x128xf32>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf32> -> !tb.stensor<64x128xf32>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf32> -> tensor<2112x1024xf32>
  } : (tensor<2112x512xf32>, tensor<512x1024xf32>) -> tensor<2112x1024xf32>
  func.return %o : tensor<2112x1024xf32>
}

// CHECK: remark: kernel @odd_custom0: 'sched.copy' reads %w 2 bytes at a time and not 16, since its tiles have rows of 2002 bytes, no multiple of 16; pad its dimension 1 to 1008 [vectors]
func.func @odd(%x: tensor<2112x512xf16>, %w: tensor<512x1001xf16>) -> tensor<2112x1001xf16> {
  %o = kn.customized %x, %w grid [1, 132, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x512xf16>, %dw: tensor<512x1001xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<512x1001xf16> -> !tb.stensor<64x1001xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x1001xf16>) -> !tb.stensor<16x1001xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<16x1001xf16> -> !tb.stensor<16x1001xf16>
    tb.output %product omap [-1, 0, -1] : !tb.stensor<16x1001xf16> -> tensor<2112x1001xf16>
  } : (tensor<2112x512xf16>, tensor<512x1001xf16>) -> tensor<2112x1001xf16>
  func.return %o : tensor<2112x1001xf16>
}

