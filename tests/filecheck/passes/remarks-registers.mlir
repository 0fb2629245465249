// Values that pass through shared memory: other warps, or other lanes, read what some wrote, or nothing but a pass is missing.
// RUN: mg-opt --plan="tiles=written online-softmax=false" %unpromoted --remarks -o %t %s 2>&1 | filecheck %s
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile --remarks -o %t %s 2>&1 | filecheck %s --check-prefix HELD --allow-empty

// HELD-NOT: [registers]

// CHECK: kernel @row_custom0: %e passes through shared memory once, since warp {{[0-9]}} reads in 'sched.reduce' what warp {{[0-9]}} wrote in 'sched.map' [registers]
func.func @row(%x: tensor<2112x512xf16>) -> tensor<2112x512xf16> {
  %o = kn.customized %x grid [132, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<2112x512xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<16x512xf16>
    %e = tb.exp %sx : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    %s = tb.reduction %e dim 1 : !tb.stensor<16x512xf16> -> !tb.stensor<16x1xf16>
    %n = tb.div %e, %s : (!tb.stensor<16x512xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x512xf16>
    %a = tb.forloop_accum none %n : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x512xf16> -> tensor<2112x512xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x512xf16>
  func.return %o : tensor<2112x512xf16>
}

// CHECK: kernel @chain_custom0: %e passes through shared memory once, since --promote-registers did not run; run it [registers]
func.func @chain(%x: tensor<2112x512xf16>) -> tensor<2112x512xf16> {
  %o = kn.customized %x grid [132, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<2112x512xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<16x512xf16>
    %e = tb.exp %sx : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    %p = tb.mul %e, %e : (!tb.stensor<16x512xf16>, !tb.stensor<16x512xf16>) -> !tb.stensor<16x512xf16>
    %a = tb.forloop_accum none %p : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x512xf16> -> tensor<2112x512xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x512xf16>
  func.return %o : tensor<2112x512xf16>
}

// What has no name is told apart by its type.
// CHECK: kernel @nameless_custom0: 16x512xf16 (the result of sched.alloc) passes through shared memory once, since warp {{[0-9]}} reads in 'sched.reduce' what warp {{[0-9]}} wrote in 'sched.map' [registers]
func.func @nameless(%0: tensor<2112x512xf16>) -> tensor<2112x1xf16> {
  %1 = kn.customized %0 grid [132, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%2: tensor<2112x512xf16>):
    %3 = tb.input %2 imap [0, -1, -1] : tensor<2112x512xf16> -> !tb.stensor<16x512xf16>
    %4 = tb.exp %3 : !tb.stensor<16x512xf16> -> !tb.stensor<16x512xf16>
    %5 = tb.reduction %4 dim 1 : !tb.stensor<16x512xf16> -> !tb.stensor<16x1xf16>
    %6 = tb.forloop_accum none %5 : !tb.stensor<16x1xf16> -> !tb.stensor<16x1xf16>
    tb.output %6 omap [0, -1, -1] : !tb.stensor<16x1xf16> -> tensor<2112x1xf16>
  } : (tensor<2112x512xf16>) -> tensor<2112x1xf16>
  func.return %1 : tensor<2112x1xf16>
}
