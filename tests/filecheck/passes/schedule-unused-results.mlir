// What nothing reads is computed all the same, and keeps nobody waiting: neither of a tile that others read, nor of one
// that it has for itself.
// RUN: mg-opt --transpile="arch=sm_90a" --verify-semantics %s 2>&1 >%t.scheduled.mlir | filecheck %s
// RUN: mg-run %t.scheduled.mlir --check --level address | filecheck %s --check-prefix ADDRESS
// RUN: mg-opt --transpile="arch=sm_80" --verify-semantics %s 2>&1 >%t.scheduled.mlir | filecheck %s

// CHECK: @f computes the same after each of
// ADDRESS: output 0, 64x64 float16: relative error
func.func @f(%x: tensor<64x256xf16>, %w: tensor<256x64xf16>, %z: tensor<64x256xf16>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %w, %z grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<64x256xf16>, %dw: tensor<256x64xf16>, %dz: tensor<64x256xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x64xf16>
    %sz = tb.input %dz imap [-1, -1, -1] fordim 1 : tensor<64x256xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %r = tb.reduction %sx dim 1 : !tb.stensor<64x64xf16> -> !tb.stensor<64x1xf16>
    %e = tb.exp %r : !tb.stensor<64x1xf16> -> !tb.stensor<64x1xf16>
    %s = tb.reduction %sz dim 0 : !tb.stensor<64x64xf16> -> !tb.stensor<1x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %am omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x256xf16>, tensor<256x64xf16>, tensor<64x256xf16>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
