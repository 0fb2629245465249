// RUN: mg-opt --split-input-file --verify-diagnostics --resolve-layout --lower-threadblock %s | filecheck %s
// RUN: not mg-opt --split-input-file --lower-threadblock %s 2>&1 | filecheck %s --check-prefix NO-LAYOUT
// RUN: not mg-opt --split-input-file --lower-threadblock="arch=sm_75" %s 2>&1 | filecheck %s --check-prefix ARCH
// NO-LAYOUT: mg-opt: {{.*}}invalid.mlir:9:3: error: --lower-threadblock: %x in 'kn.customized' %o has no layout yet; run --resolve-layout, after the passes that make tiles
// ARCH: mg-opt: error: unknown architecture 'sm_75'; known are a100 (sm_80), h200 (sm_90a), h100 (sm_90a), b200 (sm_100a): write for instance arch="sm_90a"

// CHECK: --lower-threadblock: 'tb.rms_norm' %n cannot be scheduled as it is; composite operators need --decompose-threadblock first
func.func @composite(%x: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x16xf16>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %n = tb.rms_norm %a : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %r = tb.forloop_accum none %n : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}

// -----

// CHECK: --lower-threadblock: 'tb.forloop_accum' %r reduces; run --decompose-threadblock first
func.func @reducing(%x: tensor<16x16xf16>) -> tensor<16x1xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x16xf16>):
    %a = tb.input %dx imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %r = tb.forloop_accum sum %a : !tb.stensor<16x16xf16> -> !tb.stensor<16x1xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x1xf16> -> tensor<16x1xf16>
  } : (tensor<16x16xf16>) -> tensor<16x1xf16>
  func.return %o : tensor<16x1xf16>
}
