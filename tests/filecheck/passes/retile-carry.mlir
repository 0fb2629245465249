// A loop that carries a state keeps its tiles and its order; blocks divide what it does to each element alone.
// RUN: not mg-opt --plan="split-k=2" --retile %s 2>&1 | filecheck %s --check-prefix=SPLIT
// RUN: not mg-opt --plan="forloop=2" --retile %s 2>&1 | filecheck %s --check-prefix=FORLOOP
// RUN: not mg-opt --plan="forloop=1" --retile %s 2>&1 | filecheck %s --check-prefix=FORLOOP
// RUN: not mg-opt --plan="loop_tile=80" --retile %s 2>&1 | filecheck %s --check-prefix=FORLOOP
// RUN: mg-opt --plan="kernel=0 grid=4" --retile %s | filecheck %s --check-prefix=GRID
// RUN: not mg-opt --plan="kernel=0 grid=3" --retile %s 2>&1 | filecheck %s --check-prefix=RAGGED
// RUN: not mg-opt --plan="merge=true kernel=0" --retile %s 2>&1 | filecheck %s --check-prefix=MERGE
// RUN: mg-opt --plan="kernel=0 block=256" --retile %s | filecheck %s --check-prefix=BLOCK
// RUN: mg-opt --plan --retile %s | filecheck %s --check-prefix=CHOSEN

// SPLIT: 'kn.customized' %y: the result would depend on how many tiles the for-loop cuts dimension 1 of %dx into: 'tb.carried' %s carries a state from each iteration to the next
// FORLOOP: 'kn.customized' %y: dimension 1 of %dx must stay cut as it is, because 'tb.carried' %s carries a state from each iteration to the next
// RAGGED: 'kn.customized' %y: tiles of 6 along dimension 0 of %dx would not all be whole, and 'tb.carried' %s is a state, of whole tiles only; choose a number that divides 16
// MERGE: 'kn.customized' %y cannot be merged with the kernel that uses it: 'tb.carried' %s carries a state from each iteration to the next
// GRID: kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 4
// GRID:   %s = tb.carried : !tb.stensor<4x1xf32>
// GRID:   %last = tb.carry %n to %s : (!tb.stensor<4x1xf32>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x1xf32>
// BLOCK: kn.customized %x grid [2, 1, 1] block [256, 1, 1] forloop 4
// BLOCK: tb.input %dx imap [0, -1, -1] fordim 1
// CHOSEN: kn.customized %x grid {{.*}} forloop 4
func.func @decayed_sums(%x: tensor<16x256xf32>) -> tensor<16x1xf32> {
  %y = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x256xf32>):
    %t = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<16x256xf32> -> !tb.stensor<8x64xf32>
    %s = tb.carried : !tb.stensor<8x1xf32>
    %d = tb.mul_scalar %s by 0.5 : !tb.stensor<8x1xf32> -> !tb.stensor<8x1xf32>
    %r = tb.reduction %t dim 1 : !tb.stensor<8x64xf32> -> !tb.stensor<8x1xf32>
    %n = tb.add %d, %r : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    %last = tb.carry %n to %s : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    tb.output %last omap [0, -1, -1] : !tb.stensor<8x1xf32> -> tensor<16x1xf32>
  } : (tensor<16x256xf32>) -> tensor<16x1xf32>
  %z = kn.customized %y grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dy: tensor<16x1xf32>):
    %t2 = tb.input %dy imap [0, -1, -1] : tensor<16x1xf32> -> !tb.stensor<8x1xf32>
    %e = tb.exp %t2 : !tb.stensor<8x1xf32> -> !tb.stensor<8x1xf32>
    %a = tb.forloop_accum none %e : !tb.stensor<8x1xf32> -> !tb.stensor<8x1xf32>
    tb.output %a omap [0, -1, -1] : !tb.stensor<8x1xf32> -> tensor<16x1xf32>
  } : (tensor<16x1xf32>) -> tensor<16x1xf32>
  func.return %z : tensor<16x1xf32>
}
