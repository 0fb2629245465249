// A maximum of what is the same in all iterations is taken once, before the loop. What is computed of
// it after the loop as well is not computed again.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | filecheck %s

// CHECK-LABEL: sched.kernel @rounded_custom0
// CHECK:      sched.prologue {
// CHECK:        sched.reduce {{.*}} combine max dim 1
// CHECK:        [[SCALE:%.*]] = sched.map mul_scalar
// CHECK:      sched.forloop 4
// CHECK-NOT:    combine max
// CHECK:        sched.mma
// CHECK:      sched.epilogue {
// CHECK-NOT:    combine max
// CHECK-NOT:    mul_scalar
// CHECK:        sched.copy
func.func @rounded(%x: tensor<1x256xf16>, %m: tensor<1x64xf16>, %w: tensor<256x64xf8E4M3FN>) -> tensor<1x64xf16> {
  %y = kn.customized %x, %m, %w grid [2, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<1x256xf16>, %dm: tensor<1x64xf16>, %dw: tensor<256x64xf8E4M3FN>):
    %parts = tb.input %dm imap [-1, -1, -1] : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %largest, %fall = tb.reduction_max %parts dim 1 : !tb.stensor<1x64xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %scale = tb.mul_scalar %largest by 2.500000e-01 : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<1x256xf16> -> !tb.stensor<1x64xf16>
    %s = tb.mul %t, %scale : (!tb.stensor<1x64xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x64xf32>
    %codes = tb.cast %s : !tb.stensor<1x64xf32> -> !tb.stensor<1x64xf8E4M3FN>
    %u = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x64xf8E4M3FN> -> !tb.stensor<64x32xf8E4M3FN>
    %p = tb.matmul %codes, %u : (!tb.stensor<1x64xf8E4M3FN>, !tb.stensor<64x32xf8E4M3FN>) -> !tb.stensor<1x32xf32>
    %sum = tb.forloop_accum none %p : !tb.stensor<1x32xf32> -> !tb.stensor<1x32xf32>
    %o = tb.mul %sum, %scale : (!tb.stensor<1x32xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x32xf16>
    tb.output %o omap [1, -1, -1] : !tb.stensor<1x32xf16> -> tensor<1x64xf16>
  } : (tensor<1x256xf16>, tensor<1x64xf16>, tensor<256x64xf8E4M3FN>) -> tensor<1x64xf16>
  func.return %y : tensor<1x64xf16>
}

// Halves of a row that change places, as of a rotation, do so once.
// CHECK-LABEL: sched.kernel @turned_custom0
// CHECK:      sched.prologue {
// CHECK:        sched.move
// CHECK:        sched.map mul_scalar(-1.0)
// CHECK:        sched.move
// CHECK:        sched.move
// CHECK:      sched.forloop 4
// CHECK-NOT:    sched.move
// CHECK:        sched.mma
func.func @turned(%x: tensor<4x64xf16>, %k: tensor<64x256xf16>, %v: tensor<256x64xf16>) -> tensor<4x64xf16> {
  %y = kn.customized %x, %k, %v grid [1, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<4x64xf16>, %dk: tensor<64x256xf16>, %dv: tensor<256x64xf16>):
    %t = tb.input %dx imap [-1, -1, -1] : tensor<4x64xf16> -> !tb.stensor<4x64xf16>
    %a, %b = tb.split %t dim 1 : (!tb.stensor<4x64xf16>) -> (!tb.stensor<4x32xf16>, !tb.stensor<4x32xf16>)
    %n = tb.mul_scalar %b by -1.000000e+00 : !tb.stensor<4x32xf16> -> !tb.stensor<4x32xf16>
    %r = tb.concat %n, %a dim 1 : (!tb.stensor<4x32xf16>, !tb.stensor<4x32xf16>) -> !tb.stensor<4x64xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %p = tb.matmul %r, %sk : (!tb.stensor<4x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<4x64xf16>
    %sv = tb.input %dv imap [-1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x64xf16>
    %q = tb.matmul %p, %sv : (!tb.stensor<4x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<4x64xf32>
    %sum = tb.forloop_accum none %q : !tb.stensor<4x64xf32> -> !tb.stensor<4x64xf32>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<4x64xf32> -> tensor<4x64xf16>
  } : (tensor<4x64xf16>, tensor<64x256xf16>, tensor<256x64xf16>) -> tensor<4x64xf16>
  func.return %y : tensor<4x64xf16>
}
