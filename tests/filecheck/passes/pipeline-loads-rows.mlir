// Rows that threads hold, and the weights of their columns: the weights' loads are under way before those of rows, and
// threads wait for all of them together.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | filecheck %s

// CHECK:      sched.prologue {
// CHECK-NOT:    async
// CHECK:        sched.copy %{{.*}} to %{{.*}} by {{.*}} : !sched.global<1x1024xf16, {{.*}}> to !sched.shared<1x1024xf16
// CHECK-NEXT:   sched.copy %{{.*}} to %{{.*}} by {{.*}} : !sched.global<16x1024xf16, {{.*}}> to !sched.tile<16x1024xf16
// CHECK-NOT:  sched.wait pending
// CHECK:      sched.epilogue {
func.func @norm(%x: tensor<512x1024xf16>, %w: tensor<1x1024xf16>) -> tensor<512x1024xf16> {
  %o = kn.customized %x, %w grid [32, 1, 1] block [256, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<512x1024xf16>, %dw: tensor<1x1024xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<512x1024xf16> -> !tb.stensor<16x1024xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<1x1024xf16> -> !tb.stensor<1x1024xf16>
    %n = tb.rms_norm %sx : !tb.stensor<16x1024xf16> -> !tb.stensor<16x1024xf16>
    %m = tb.mul %n, %sw : (!tb.stensor<16x1024xf16>, !tb.stensor<1x1024xf16>) -> !tb.stensor<16x1024xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<16x1024xf16> -> tensor<512x1024xf16>
  } : (tensor<512x1024xf16>, tensor<1x1024xf16>) -> tensor<512x1024xf16>
  func.return %o : tensor<512x1024xf16>
}

// Several rows that all blocks have: none is waited for before the others, and rows, are under way.
// CHECK:      sched.prologue {
// CHECK:        sched.copy async %{{.*}} to %{{.*}} by {{.*}} : !sched.global<1x1024xf16, {{.*}}> to !sched.shared<1x1024xf16
// CHECK-NEXT:   sched.copy async %{{.*}} to %{{.*}} by {{.*}} : !sched.global<1x1024xf16, {{.*}}> to !sched.shared<1x1024xf16
// CHECK-NEXT:   sched.copy %{{.*}} to %{{.*}} by {{.*}} : !sched.global<16x1024xf16, {{.*}}> to !sched.tile<16x1024xf16
// CHECK-NEXT:   sched.commit
// CHECK:        sched.wait pending 0
// CHECK:      sched.epilogue {
func.func @norm_and_bias(%x: tensor<512x1024xf16>, %w: tensor<1x1024xf16>, %b: tensor<1x1024xf16>) -> tensor<512x1024xf16> {
  %o = kn.customized %x, %w, %b grid [32, 1, 1] block [256, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<512x1024xf16>, %dw: tensor<1x1024xf16>, %db: tensor<1x1024xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<512x1024xf16> -> !tb.stensor<16x1024xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<1x1024xf16> -> !tb.stensor<1x1024xf16>
    %sb = tb.input %db imap [-1, -1, -1] : tensor<1x1024xf16> -> !tb.stensor<1x1024xf16>
    %n = tb.rms_norm %sx : !tb.stensor<16x1024xf16> -> !tb.stensor<16x1024xf16>
    %m = tb.mul %n, %sw : (!tb.stensor<16x1024xf16>, !tb.stensor<1x1024xf16>) -> !tb.stensor<16x1024xf16>
    %a = tb.add %m, %sb : (!tb.stensor<16x1024xf16>, !tb.stensor<1x1024xf16>) -> !tb.stensor<16x1024xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x1024xf16> -> tensor<512x1024xf16>
  } : (tensor<512x1024xf16>, tensor<1x1024xf16>, tensor<1x1024xf16>) -> tensor<512x1024xf16>
  func.return %o : tensor<512x1024xf16>
}
