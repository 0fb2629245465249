// Kernels of a function that says so let none behind them begin before they have waited, whatever their plans say.
// RUN: mg-opt --plan="tiles=written loads=cp_async pdl=early" --transpile %s | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=tma pdl=early" --transpile %s | filecheck %s --check-prefix ROLES

// CHECK:      sched.kernel @linear_custom0 inputs 2 constant [1] grid
// CHECK-NOT:  sched.grid_launch
// CHECK:      sched.grid_wait
// CHECK:      sched.forloop
// CHECK:      sched.grid_launch
// CHECK:      func.func @linear

// The role that loads has waited; consumers do later.
// ROLES-NOT:  sched.grid_launch
// ROLES:      sched.role "producer"
// ROLES:      sched.grid_wait
// ROLES:      sched.grid_launch
func.func @linear(%x: tensor<16x512xf16>, %w: tensor<512x128xf16> {mugraph.constant}) -> tensor<16x128xf16>
    attributes {mugraph.waits_first} {
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
