// RUN: mg-opt --transpile="arch=sm_90a stores=all promote-registers=false overlap-launches=false" %s 2>&1 | filecheck %s
// RUN: mg-opt --transpile="arch=sm_90a stores=all overlap-launches=false" %s 2>&1 | filecheck %s --check-prefix=REGISTERS
// RUN: mg-opt --transpile="arch=sm_90a promote-registers=false overlap-launches=false" %s 2>&1 | filecheck %s --check-prefix=AUTO

// Whoever asks for bulk copies of all results is told which ones threads still write, and why.

// CHECK: --bulk-stores: note: 'sched.kernel' @ragged_custom0 writes %o with all threads: its tiles are ragged
// CHECK-NEXT: --bulk-stores: note: 'sched.kernel' @aligned_custom0 writes %o with all threads: it is aligned to 8 bytes, and bulk copies need 16
// CHECK-NOT: note
// CHECK-NOT: @whole_custom0 writes

// REGISTERS: note: 'sched.kernel' @whole_custom0 writes %o with all threads: it is not copied as it is out of a buffer of shared memory

// AUTO-NOT: note
func.func @ragged(%x: tensor<62x64xf16>) -> tensor<62x64xf16> {
  %o = kn.customized %x grid [4, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<62x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<62x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.exp %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<62x64xf16>
  } : (tensor<62x64xf16>) -> tensor<62x64xf16>
  func.return %o : tensor<62x64xf16>
}
func.func @aligned(%x: tensor<64x64xf16>) -> (tensor<64x64xf16> {mugraph.alignment = 8 : i64}) {
  %o = kn.customized %x grid [4, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.exp %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
func.func @whole(%x: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %x grid [4, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.exp %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
