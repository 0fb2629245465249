// Registers have no room for 64 x 448 sums of 64 threads: the product is computed in pieces of 160 columns. TMA would
// bring W in boxes of 64 columns, which such pieces cut across; so threads load it, unless the plan asks for TMA.
// RUN: mg-opt --plan=tiles=written --transpile %s | filecheck %s
// RUN: sed 's/forloop 2/forloop 2 plan <tiles = written, loads = tma>/' %s > %t.mlir
// RUN: not mg-opt --transpile %t.mlir 2>&1 | filecheck %s --check-prefix TMA
// CHECK-NOT: sched.bulk_copy
// CHECK: sched.mma %sx, %sw at [0, 160]
// TMA: 'kn.customized' %o cannot have loads = tma: 'sched.mma' of %sx is computed in pieces, which cut across boxes: 160 elements, 1 apart, of dimension 1 of S<3,3,3> o (64,(64,7)):(64,(1,4096)) are no layout; write loads = cp_async, or leave loads free
func.func @wide(%x: tensor<64x128xf16>, %w: tensor<128x448xf16>) -> tensor<64x448xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [64, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<64x128xf16>, %dw: tensor<128x448xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<128x448xf16> -> !tb.stensor<64x448xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x448xf16>) -> !tb.stensor<64x448xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<64x448xf32> -> !tb.stensor<64x448xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<64x448xf16> -> tensor<64x448xf16>
  } : (tensor<64x128xf16>, tensor<128x448xf16>) -> tensor<64x448xf16>
  func.return %o : tensor<64x448xf16>
}
