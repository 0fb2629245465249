// The numbers of columns come straight to the registers of each row that a thread has: nothing is in shared memory,
// and no barrier is needed. Where a thread has too much of the rows they are copied to shared memory once.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s | mg-run --check --level=address -

// CHECK-LABEL: sched.kernel @norm_custom0
// CHECK-SAME:    smem 0
// CHECK:      sched.prologue {
// CHECK:        sched.copy %{{.*}} : !sched.global<8x192xf16, {{.*}}> to !sched.tile<8x192xf16
// CHECK:        sched.copy %{{.*}} : !sched.global<1x192xf16, {{.*}}> to !sched.tile<8x192xf16
// CHECK-NEXT:   sched.copy %{{.*}} : !sched.global<1x192xf16, {{.*}}> to !sched.tile<8x192xf16
// CHECK-NOT:  sched.barrier
// CHECK:      func.func @norm
func.func @norm(%x: tensor<64x192xf16>, %w: tensor<1x192xf16>, %b: tensor<1x192xf16>) -> tensor<64x192xf16> {
  %o = kn.customized %x, %w, %b grid [8, 1, 1] block [192, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x192xf16>, %dw: tensor<1x192xf16>, %db: tensor<1x192xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x192xf16> -> !tb.stensor<8x192xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<1x192xf16> -> !tb.stensor<1x192xf16>
    %sb = tb.input %db imap [-1, -1, -1] : tensor<1x192xf16> -> !tb.stensor<1x192xf16>
    %e = tb.exp %sx : !tb.stensor<8x192xf16> -> !tb.stensor<8x192xf16>
    %m = tb.mul %e, %sw : (!tb.stensor<8x192xf16>, !tb.stensor<1x192xf16>) -> !tb.stensor<8x192xf16>
    %a = tb.add %m, %sb : (!tb.stensor<8x192xf16>, !tb.stensor<1x192xf16>) -> !tb.stensor<8x192xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<8x192xf16> -> tensor<64x192xf16>
  } : (tensor<64x192xf16>, tensor<1x192xf16>, tensor<1x192xf16>) -> tensor<64x192xf16>
  func.return %o : tensor<64x192xf16>
}
