// Passes and printing take as long for a large grid and a long loop as for small ones.

// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile -t 'cuda{function=blocks}' %s | filecheck %s --check-prefix=GRID
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile -t 'cuda{function=iterations}' %s | filecheck %s --check-prefix=LOOP
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile %s | mg-opt --print-hazards --report-memory-access 2>&1 | filecheck %s

// GRID: dim3(2147483647, 1, 1)
// LOOP: it < 2147483647
// CHECK: is published 2147483647 times, consumed 2147483647 times
// CHECK: memory accesses of @blocks_custom0, 2147483647 blocks

!tile = !tb.stensor<16x64xf16>

func.func @blocks(%x: tensor<34359738352x64xf16>) -> tensor<34359738352x64xf16> {
  %o = kn.customized %x grid [2147483647, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%d: tensor<34359738352x64xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<34359738352x64xf16> -> !tile
    %e = tb.exp %s : !tile -> !tile
    %a = tb.forloop_accum none %e : !tile -> !tile
    tb.output %a omap [0, -1, -1] : !tile -> tensor<34359738352x64xf16>
  } : (tensor<34359738352x64xf16>) -> tensor<34359738352x64xf16>
  func.return %o : tensor<34359738352x64xf16>
}

func.func @iterations(%x: tensor<16x64xf16>, %y: tensor<34359738352x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x, %y grid [1, 1, 1] block [128, 1, 1] forloop 2147483647 {
  ^bb0(%d: tensor<16x64xf16>, %b: tensor<34359738352x64xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<16x64xf16> -> !tile
    %t = tb.input %b imap [-1, -1, -1] fordim 0 : tensor<34359738352x64xf16> -> !tile
    %p = tb.mul %s, %t : (!tile, !tile) -> !tile
    %a = tb.forloop_accum none %p : !tile -> !tile
    tb.output %a omap [-1, -1, -1] : !tile -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<34359738352x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
