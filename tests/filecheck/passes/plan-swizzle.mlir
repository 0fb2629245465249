// RUN: mg-opt --resolve-layout --plan-swizzle %s | filecheck %s
// Scheduled first, every tile gets the same swizzle.
// RUN: mg-opt --resolve-layout --lower-threadblock --pipeline-loads --plan-swizzle %s | filecheck %s --check-prefix SCHED
// Once more changes nothing.
// RUN: mg-opt --resolve-layout --plan-swizzle --plan-swizzle %s | filecheck %s
// RUN: not mg-opt --plan-swizzle %s 2>&1 | filecheck %s --check-prefix NO-LAYOUT
// NO-LAYOUT: mg-opt: error: %{{.*}} has no layout yet; run --resolve-layout before this step

// A row of %wide is 16 chunks of 16 bytes, more than the 8 of a 128-byte line; one of %narrow 4,
// fewer; one of %odd 6: rows two apart meet in a bank, which one bit mends.  %row is read along its
// row only.
// CHECK-LABEL: func.func @matrices
// CHECK: %wide = tb.input {{.*}} -> !tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>
// CHECK: %narrow = tb.input {{.*}} -> !tb.stensor<128x32xf16, S<2,3,3> o (128,32):(32,1)>
// CHECK: %odd = tb.input {{.*}} -> !tb.stensor<32x48xf16, S<1,3,3> o (32,48):(48,1)>
// CHECK: %row = tb.input {{.*}} -> !tb.stensor<1x48xf16, (1,48):
// CHECK-SAME: 1)>
// SCHED-LABEL: sched.kernel @matrices_custom0
// SCHED: %wide = sched.alloc : !sched.shared<16x128xf16, S<3,3,4> o (16,128):(128,1)>
// SCHED: %narrow = sched.alloc : !sched.shared<128x32xf16, S<2,3,3> o (128,32):(32,1)>
// SCHED: %odd = sched.alloc : !sched.shared<32x48xf16, S<1,3,3> o (32,48):(48,1)>
func.func @matrices(%x: tensor<16x128xf16>, %y: tensor<128x32xf16>, %z: tensor<32x48xf16>, %v: tensor<1x48xf16>) -> tensor<16x48xf16> {
  %o = kn.customized %x, %y, %z, %v grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x128xf16>, %dy: tensor<128x32xf16>, %dz: tensor<32x48xf16>, %dv: tensor<1x48xf16>):
    %wide = tb.input %dx imap [-1, -1, -1] : tensor<16x128xf16> -> !tb.stensor<16x128xf16>
    %narrow = tb.input %dy imap [-1, -1, -1] : tensor<128x32xf16> -> !tb.stensor<128x32xf16>
    %odd = tb.input %dz imap [-1, -1, -1] : tensor<32x48xf16> -> !tb.stensor<32x48xf16>
    %row = tb.input %dv imap [-1, -1, -1] : tensor<1x48xf16> -> !tb.stensor<1x48xf16>
    %m = tb.matmul %wide, %narrow : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %n = tb.matmul %m, %odd : (!tb.stensor<16x32xf16>, !tb.stensor<32x48xf16>) -> !tb.stensor<16x48xf16>
    %s = tb.mul %n, %row : (!tb.stensor<16x48xf16>, !tb.stensor<1x48xf16>) -> !tb.stensor<16x48xf16>
    %r = tb.forloop_accum none %s : !tb.stensor<16x48xf16> -> !tb.stensor<16x48xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x48xf16> -> tensor<16x48xf16>
  } : (tensor<16x128xf16>, tensor<128x32xf16>, tensor<32x48xf16>, tensor<1x48xf16>) -> tensor<16x48xf16>
  func.return %o : tensor<16x48xf16>
}

// Tiles that all threads walk along the innermost dimension of stay as they are.
// CHECK-LABEL: func.func @elementwise
// CHECK: %s = tb.input {{.*}} -> !tb.stensor<16x64xf16, (16,64):(64,1)>
// CHECK: %e = tb.exp %s {{.*}} -> !tb.stensor<16x64xf16, (16,64):(64,1)>
func.func @elementwise(%x: tensor<16x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>):
    %s = tb.input %dx imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.exp %s : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %r = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
