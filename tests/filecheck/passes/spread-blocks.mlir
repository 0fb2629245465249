// Blocks of what brings weights, and starts while another kernel runs, get so much shared memory that a
// multiprocessor holds its even share of them: 2 of 256. A kernel alone stays, few blocks, and what brings no weights.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile=arch=h200 %s | filecheck %s
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile=arch=sm_80 %s | filecheck %s --check-prefix NONE
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile=arch=h200 -t 'cuda{function=weights}' %s | filecheck %s --check-prefix CUDA

// All kernels of such a function have the largest carve-out of shared memory.
// CHECK: sched.kernel @weights_custom0 {{.*}} grid [256, 1, 1] {{.*}} smem 76928
// CHECK: func.func @weights({{.*}} kn.largest_carveout
// NONE-NOT: smem 76928
// NONE-NOT: kn.largest_carveout
// CUDA: mugraph::launch("weights_custom0", {{.*}} 76928, mugraph::beside_others(stream)
// CUDA: mugraph::launch("weights_custom1", {{.*}} mugraph::beside_others(stream)
func.func @weights(%x: tensor<16x512xf16>, %w: tensor<512x8192xf16> {mugraph.constant}) -> tensor<16x8192xf16> {
  %y = kn.customized %x, %w grid [256, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x8192xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x8192xf16> -> !tb.stensor<128x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x8192xf16>
  } : (tensor<16x512xf16>, tensor<512x8192xf16>) -> tensor<16x8192xf16>
  %z = kn.customized %y grid [64, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dy: tensor<16x8192xf16>):
    %sy = tb.input %dy imap [1, -1, -1] fordim -1 : tensor<16x8192xf16> -> !tb.stensor<16x128xf16>
    %e = tb.exp %sy : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf16>
    tb.output %e omap [1, -1, -1] : !tb.stensor<16x128xf16> -> tensor<16x8192xf16>
  } : (tensor<16x8192xf16>) -> tensor<16x8192xf16>
  func.return %z : tensor<16x8192xf16>
}

// CHECK: sched.kernel @alone_custom0 {{.*}} grid [128, 1, 1] {{.*}} smem [[OWN:[0-9]{5} ]]
func.func @alone(%x: tensor<16x512xf16>, %w: tensor<512x4096xf16> {mugraph.constant}) -> tensor<16x4096xf16> {
  %y = kn.customized %x, %w grid [128, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x4096xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x4096xf16> -> !tb.stensor<128x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x4096xf16>
  } : (tensor<16x512xf16>, tensor<512x4096xf16>) -> tensor<16x4096xf16>
  func.return %y : tensor<16x4096xf16>
}

// CHECK-NOT: kn.largest_carveout
// CHECK: sched.kernel @others_custom0 {{.*}} grid [256, 1, 1] {{.*}} smem [[OWN]]
// CHECK: sched.kernel @few_custom0 {{.*}} grid [64, 1, 1] {{.*}} smem [[OWN]]
func.func @others(%x: tensor<16x512xf16>, %w: tensor<512x8192xf16>) -> tensor<16x8192xf16> {
  %y = kn.customized %x, %w grid [256, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x8192xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x8192xf16> -> !tb.stensor<128x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x8192xf16>
  } : (tensor<16x512xf16>, tensor<512x8192xf16>) -> tensor<16x8192xf16>
  func.return %y : tensor<16x8192xf16>
}

func.func @few(%x: tensor<16x512xf16>, %w: tensor<512x2048xf16> {mugraph.constant}) -> tensor<16x2048xf16> {
  %y = kn.customized %x, %w grid [64, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x512xf16>, %dw: tensor<512x2048xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x512xf16> -> !tb.stensor<16x128xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x2048xf16> -> !tb.stensor<128x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x128xf16>, !tb.stensor<128x32xf16>) -> !tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x2048xf16>
  } : (tensor<16x512xf16>, tensor<512x2048xf16>) -> tensor<16x2048xf16>
  func.return %y : tensor<16x2048xf16>
}
