// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt %s --print-op-generic | mg-opt | filecheck %s
// RUN: sed 's/loads = tma/load = tma/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix PART
// RUN: sed 's/loads = tma/loads = dma/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix WORD
// RUN: sed 's/stages = .2, 3./stages = [0]/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix STAGES
// RUN: sed 's/stages = .2, 3./stages = 2/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix LIST
// RUN: sed 's/forloop = 8/forloop = 0/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix LOOP
// RUN: sed 's/pdl = late/loads = tma/' %s | not mg-opt 2>&1 | filecheck %s --check-prefix TWICE
// RUN: sed "s/preferred = .stages/preferred = [ping_pong/" %s | not mg-opt 2>&1 | filecheck %s --check-prefix FREE

// A plan keeps the parts that are written, in one order.
// CHECK: forloop 4 plan <grid = [4], along = [1], forloop = 8, loads = tma, stages = [2, 3], swap_ab = false, pdl = late, preferred = [stages, loads]> {
// PART: error: load is no part of a plan; it has tiles, merge, inline, outline, grid,
// WORD: error: #kn.plan: loads = dma is unknown; expected one of tma, cp_async
// STAGES: error: #kn.plan: stages = [0] cannot be; write numbers of at least 1
// LOOP: error: #kn.plan: forloop = 0 must be at least 1
// LIST: error: stages is a list: expected stages = [...]
// TWICE: error: loads is written twice; leave one out
// FREE: error: #kn.plan: preferred = [ping_pong, loads]: the plan leaves ping_pong free

func.func @f(%x: tensor<16x256xf16>, %w: tensor<256x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 4 plan <loads = tma, pdl = late, grid = [4], along = [1], forloop = 8, preferred = [stages, loads], stages = [2, 3], swap_ab = false> {
  ^bb0(%dx: tensor<16x256xf16>, %dw: tensor<256x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x64xf16>
  } : (tensor<16x256xf16>, tensor<256x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
