// Each kernel lets the next one start at once, and waits before the first access to what the kernels
// before it may still use: loads of constant tensors stand in front.
// RUN: mg-opt --plan="tiles=written loads=cp_async pdl=early" --transpile %s | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=tma pdl=early" --transpile %s | filecheck %s --check-prefix ROLES
// RUN: mg-opt --plan="tiles=written loads=cp_async pdl=early" --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --plan=tiles=written --transpile=arch=sm_80 %s | filecheck %s --check-prefix WITHOUT
// RUN: mg-opt --plan="tiles=written pdl=none" --transpile %s | filecheck %s --check-prefix NONE
// RUN: mg-opt --plan="tiles=written loads=tma" --transpile %s | filecheck %s --check-prefix LATE

// CHECK:      sched.kernel @linear_custom0 inputs 2 constant [1] grid
// CHECK:      sched.prologue {
// CHECK-NEXT:   sched.grid_launch
// CHECK-NEXT:   sched.copy async %dw_tile to %sw by <128, vector 8, order [1, 0]> iteration 0
// CHECK-NEXT:   sched.copy async %dw_tile to %sw by <128, vector 8, order [1, 0]> iteration 1
// CHECK:        sched.grid_wait
// CHECK-NEXT:   sched.copy async %dx_tile to %sx by <128, vector 8, order [1, 0]> iteration 0
// CHECK-NEXT:   sched.commit
// CHECK-NOT:  sched.grid_wait
// CHECK:      func.func @linear
// CHECK:        kn.exp {{.*}} {kn.overlaps}

// Each role waits for itself: consumers before they store.
// ROLES:      sched.barrier
// ROLES-NEXT: sched.grid_launch
// ROLES-NEXT: sched.role "consumers"
// ROLES:      sched.grid_wait
// ROLES-NEXT: sched.copy %{{.*}} to %y_tile
// ROLES:      sched.role "producer"
// ROLES-NEXT:   sched.prologue {
// ROLES-NEXT:     sched.bulk_copy %dw_tile to %sw on %ring iteration 0
// ROLES-NEXT:     sched.bulk_copy %dw_tile to %sw on %ring iteration 1
// ROLES:          sched.grid_wait
// ROLES-NEXT:     sched.bulk_copy %dx_tile to %sx on %ring iteration 0
// ROLES-NEXT:     sched.publish %ring

// CUDA:      tb::grid_launch();  // sched.grid_launch
// CUDA:      tb::grid_wait();  // sched.grid_wait
// CUDA:      mugraph::launch("linear_custom0", linear_custom0, {{.*}}, mugraph::overlapping(stream), x, w, y);
// CUDA:      kn::Elementwise<ops::Exp, Target, Source0>::run(mugraph::overlapping(stream), e, y);

// NONE-NOT: grid_wait
// WITHOUT-NOT: grid_wait
// WITHOUT-NOT: kn.overlaps
func.func @linear(%x: tensor<16x512xf16>, %w: tensor<512x128xf16> {mugraph.constant}) -> tensor<16x128xf16> {
  %y = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x128xf16> -> !tb.stensor<128x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<16x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x128xf16>
  } : (tensor<16x512xf16>, tensor<512x128xf16>) -> tensor<16x128xf16>
  %e = kn.exp %y : tensor<16x128xf16> -> tensor<16x128xf16>
  func.return %e : tensor<16x128xf16>
}

// By default the next kernel begins when all loads of the loop are on their way.
// LATE:      sched.role "producer" warps 1 elected {
// LATE:          sched.publish %ring iteration 3
// LATE-NEXT:   }
// LATE-NEXT:   sched.grid_launch
