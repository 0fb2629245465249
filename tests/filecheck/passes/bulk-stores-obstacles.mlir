// RUN: not mg-opt --plan="tiles=written stores=tma function=aligned" --transpile %s 2>&1 | filecheck %s --check-prefix=ALIGNED
// RUN: not mg-opt --plan="tiles=written stores=tma function=whole" --transpile %s 2>&1 | filecheck %s --check-prefix=REGISTERS
// RUN: mg-opt --plan="tiles=written stores=tma function=whole" --plan=tiles=written %unpromoted %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: mg-opt --plan="tiles=written stores=tma preferred=stores" --transpile %s 2>&1 | filecheck %s --check-prefix=PREFERRED

// Whoever asks for bulk copies of all results is told which ones threads would write, and why.

// ALIGNED: --bulk-stores: 'sched.kernel' @aligned_custom0 cannot have stores = tma: all threads write %o, since it is aligned to 8 bytes, and bulk copies need 16; leave stores free
// REGISTERS: @whole_custom0 cannot have stores = tma: all threads write %o, since it is not copied as it is out of a buffer of shared memory; leave stores free

// NONE-NOT: cannot have
// NONE: sched.bulk_wait

// PREFERRED: --bulk-stores: note: 'sched.kernel' @aligned_custom0 cannot have stores = tma
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
