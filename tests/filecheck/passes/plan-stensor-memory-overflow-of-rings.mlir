// Sums that do not fit beside tiles that TMA loads: these count as what the for-loop cuts.
// RUN: not mg-opt --transpile %s -o %t.mlir 2>&1 | filecheck %s
// CHECK: 'sched.kernel' @big_custom0 needs {{[0-9]+}} bytes of shared memory, a block of sm_90a has 232448:
// CHECK: {{[0-9]+}} bytes are tiles that the for-loop cuts: more iterations ('forloop') shrink them and what is computed from them, but they alone are not enough; about {{[0-9]}} times as many blocks ('grid') shrink the rest, too.
func.func @big(%x: tensor<512x256xf16>, %w: tensor<256x128xf16>) -> tensor<512x128xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 4 plan <tiles = written, loads = tma> {
  ^bb0(%dx: tensor<512x256xf16>, %dw: tensor<256x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<512x256xf16> -> !tb.stensor<512x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<256x128xf16> -> !tb.stensor<64x128xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<512x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<512x128xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<512x128xf32> -> !tb.stensor<512x128xf32>
    %c = tb.cast %a : !tb.stensor<512x128xf32> -> !tb.stensor<512x128xf16>
    tb.output %c omap [-1, -1, -1] : !tb.stensor<512x128xf16> -> tensor<512x128xf16>
  } : (tensor<512x256xf16>, tensor<256x128xf16>) -> tensor<512x128xf16>
  func.return %o : tensor<512x128xf16>
}
