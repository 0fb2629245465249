// Why the tiles of a product come by copies of all threads: the tensor, its tiles, the block, or the loop.
// RUN: mg-opt --plan=tiles=written --transpile --remarks -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile --remarks -o %t %s 2>&1 | filecheck %s --check-prefix ASKED
// RUN: mg-opt --plan=tiles=written --transpile=arch=sm_80 --remarks="arch=sm_80" -o %t %s 2>&1 | filecheck %s --check-prefix OLDER --allow-empty

// What was asked for is said where nothing else is why; what a target does not have is not missed.
// ASKED: remark: kernel @best_custom0: %x, %w are loaded by cp.async and not by TMA, since loads = cp_async was planned, or shared memory has no room for a ring; write loads = tma in its plan [tma]
// OLDER-NOT: [tma]
// OLDER-NOT: [wgmma]

// CHECK: remark: kernel @stride_custom0: %x, and with it %w, is loaded by cp.async and not by TMA, since the tensor's stride along dimension 0 is 250 bytes, not a multiple of 16; pad its dimension 1 to 160 [tma]
// CHECK-NEXT: remark: kernel @stride_custom0: the product %product, 64x128 of depth 25, is computed by mma.sync and not by WGMMA, since a depth of 25 is no multiple of 16; cut tiles of a multiple of 16 along k [wgmma]
// CHECK-NEXT: remark: kernel @stride_custom0: 'sched.copy' reads %x 2 bytes at a time and not 16, since its tiles have rows of 50 bytes, no multiple of 16; cut tiles of a multiple of 8 elements along its dimension 1 [vectors]
func.func @stride(%x: tensor<2112x125xf16>, %w: tensor<125x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%dx: tensor<2112x125xf16>, %dw: tensor<125x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x125xf16> -> !tb.stensor<64x25xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<125x1024xf16> -> !tb.stensor<25x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x25xf16>, !tb.stensor<25x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x125xf16>, tensor<125x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK: remark: kernel @uneven_custom0: %x is loaded by cp.async and not by TMA, since its tiles of 53 along dimension 0 reach into those of other blocks; let blocks have 424 elements along its dimension 0, in 8 tiles of 53 [tma]
func.func @uneven(%x: tensor<2100x512xf16>) -> tensor<2100x512xf16> {
  %o = kn.customized %x grid [5, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2100x512xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 0 : tensor<2100x512xf16> -> !tb.stensor<53x512xf16>
    %e = tb.exp %sx : !tb.stensor<53x512xf16> -> !tb.stensor<53x512xf16>
    tb.output %e omap [0, -1, -1] fordim 0 : !tb.stensor<53x512xf16> -> tensor<2100x512xf16>
  } : (tensor<2100x512xf16>) -> tensor<2100x512xf16>
  func.return %o : tensor<2100x512xf16>
}

// CHECK: remark: kernel @aligned_custom0: %x, and with it %w, is loaded by cp.async and not by TMA, since it is aligned to 8 bytes, and bulk copies need 16; let it start at a multiple of 16 bytes, without mugraph.alignment [tma]
// CHECK-NEXT: remark: kernel @aligned_custom0: the product %product, 64x128 of depth 64, is computed by mma.sync and not by WGMMA, since %sx is not loaded by TMA; see the remark on its load [wgmma]
// CHECK-NEXT: remark: kernel @aligned_custom0: 'sched.copy' reads %x 8 bytes at a time and not 16, since it is aligned to 8 bytes; let it start at a multiple of 16 bytes [vectors]
func.func @aligned(%x: tensor<2112x512xf16> {mugraph.alignment = 8 : i64}, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
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

// CHECK: remark: kernel @rows_custom0: %x, and with it %w, is loaded by cp.async and not by TMA, since its tiles' rows of 24 bytes are no multiple of 16; cut tiles of a multiple of 8 elements along its dimension 1 [tma]
func.func @rows(%x: tensor<2112x96xf16>, %w: tensor<96x1024xf16>) -> tensor<2112x1024xf16> {
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

// CHECK: remark: kernel @warps_custom0: %x, %w are loaded by cp.async and not by TMA, since its block of 48 threads is not made of whole warps; give it whole warps (plan <block = [64]>) [tma]
// CHECK-NEXT: remark: kernel @warps_custom0: the product %product, 64x64 of depth 64, is computed by mma.sync and not by WGMMA, since 48 threads are no warp group of 128; give the block a warp group (plan <block = [128]>) [wgmma]
// CHECK-NEXT: remark: kernel @warps_custom0: %product passes through shared memory in each of 8 iterations, since a thread would need about {{[0-9]+}} registers of 255; give the block more threads, or cut smaller tiles [registers]
// CHECK-NEXT: remark: kernel @warps_custom0: 'sched.copy' writes %o 8 bytes at a time and not 16, since 4 elements of %product, which goes with it, are 16 bytes already [vectors]
func.func @warps(%x: tensor<2112x512xf16>, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [48, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<2112x512xf16>, %dw: tensor<512x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x512xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x512xf16>, tensor<512x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK: remark: kernel @once_custom0: %x, %w are loaded by cp.async and not by TMA, since its loop has one iteration; cut what it loads by a for-loop (plan <forloop = ...>) [tma]
// CHECK-NEXT: remark: kernel @once_custom0: the product %product, 64x128 of depth 64, is computed by mma.sync and not by WGMMA, since %sx is not loaded by TMA; see the remark on its load [wgmma]
func.func @once(%x: tensor<2112x64xf16>, %w: tensor<64x1024xf16>) -> tensor<2112x1024xf16> {
  %o = kn.customized %x, %w grid [8, 33, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<2112x64xf16>, %dw: tensor<64x1024xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<2112x64xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x1024xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<64x128xf16>
    %product = tb.forloop_accum none %m : !tb.stensor<64x128xf16> -> !tb.stensor<64x128xf16>
    tb.output %product omap [1, 0, -1] : !tb.stensor<64x128xf16> -> tensor<2112x1024xf16>
  } : (tensor<2112x64xf16>, tensor<64x1024xf16>) -> tensor<2112x1024xf16>
  func.return %o : tensor<2112x1024xf16>
}

// CHECK-NOT: @best
func.func @best(%x: tensor<2112x512xf16>, %w: tensor<512x1024xf16>) -> tensor<2112x1024xf16> {
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
