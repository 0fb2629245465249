// RUN: mg-opt --plan %s | filecheck %s
// RUN: mg-opt --plan --retile %s | filecheck %s --check-prefix FIRST
// RUN: mg-opt --plan --retile --plan --retile %s -o %t.mlir
// RUN: filecheck %s --check-prefix CUT --input-file %t.mlir
// RUN: mg-check %s %t.mlir
// RUN: mg-opt --plan="tiles=written" %s | filecheck %s --check-prefix WRITTEN
// RUN: mg-opt --plan="grid=8 loads=tma" %s | filecheck %s --check-prefix ASKED
// RUN: mg-opt --plan="grid=8 swap-ab=true" %s | filecheck %s --check-prefix FED
// RUN: mg-opt --plan="grid=8" --retile %s | filecheck %s --check-prefix EIGHT
// RUN: sed 's/forloop 64 {/forloop 64 plan <forloop = 32, loads = tma> {/' %s | mg-opt --plan="forloop=16 stages=2" | filecheck %s --check-prefix KEPT
// RUN: mg-opt --transpile %s | filecheck %s --check-prefix PLANNED
// RUN: mg-opt --plan=loads=tma --transpile %s | filecheck %s --check-prefix CHANNELS
// RUN: mg-opt --plan=swap-ab=true --transpile %s | filecheck %s --check-prefix SWAPPED
// RUN: not mg-opt --plan="tiles=written grid=8" %s 2>&1 | filecheck %s --check-prefix BOTH
// RUN: not mg-opt --plan="loads=dma" %s 2>&1 | filecheck %s --check-prefix WORD
// RUN: not mg-opt --plan="loads=cp_async ping-pong=2" %s 2>&1 | filecheck %s --check-prefix PRODUCER

// Two blocks for 132 multiprocessors: the kernel is cut anew, and its loop is divided over blocks.
// CHECK: grid [2, 1, 1] block [128, 1, 1] forloop 64 plan <{{.*}}split_k = {{[0-9]+}}, loads = cp_async{{.*}}> {
// CUT: kn.customized %x, %w
// CUT-SAME: plan <tiles = written, loads = cp_async
// CUT: kn.customized %{{.*}}_parts
// CUT-SAME: plan <tiles = written, loads = cp_async, pdl = late> {
// The kernel that adds up the parts is cut as the first one, until it is planned.
// FIRST: kn.customized %{{.*}}_parts
// FIRST-SAME: forloop {{[0-9]+}} plan <split_k = 1> {

// A kernel that keeps its tiles is not planned.
// WRITTEN: grid [2, 1, 1] block [128, 1, 1] forloop 64 plan <tiles = written> {

// What is asked for is kept, and of the tiles nothing else is chosen then.
// ASKED: forloop 64 plan <grid = [8], loads = tma, pdl = {{end|late}}> {
// What needs a producer keeps one, where threads would load by themselves otherwise.
// FED: forloop 64 plan <grid = [8], swap_ab = true, pdl = end> {
// EIGHT: kn.customized %x, %w grid [8, 1, 1] block [128, 1, 1] forloop 64 plan <tiles = written

// What the text says is kept before what options say.
// KEPT: forloop 64 plan <forloop = 32, loads = tma, stages = [2]

// PLANNED: sched.kernel @f_custom0
// PLANNED-NOT: sched.role
// PLANNED: sched.kernel @f_custom1
// CHANNELS: sched.kernel @f_custom0
// CHANNELS: sched.role "producer"

// Tiles have the 64 columns that swapped operands need.
// SWAPPED: sched.warpgroup_mma
// SWAPPED-SAME: SWAPPED

// BOTH: 'kn.customized' %o: tiles = written keeps grid, for-loop and block, but its plan also says grid; leave one of them out
// WORD: --plan: the option 'loads' is 'dma'; expected tma or cp_async.
// PRODUCER: 'kn.customized' %o: swap_ab, persistent and ping_pong need a producer; write loads = tma, or leave loads free

func.func @f(%x: tensor<16x4096xf16>, %w: tensor<4096x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<16x4096xf16>, %dw: tensor<4096x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x4096xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<4096x64xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x64xf16>
  } : (tensor<16x4096xf16>, tensor<4096x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
