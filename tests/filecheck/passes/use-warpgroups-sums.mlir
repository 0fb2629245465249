// RUN: mg-opt --plan --retile --decompose-threadblock --fuse-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock --share-kernels --promote-registers --use-warpgroups %s | filecheck %s

// The product of the loop has its left matrix in shared memory, and the one behind it in registers.
// They add to the same sums, whose instruction is one of the two: single warps multiply.

// CHECK:     sched.mma
// CHECK-NOT: sched.warpgroup_mma
func.func @low_rank(
  %x: tensor<256x576xbf16>, %a: tensor<576x32xbf16>, %b: tensor<32x4096xbf16>, %w: tensor<576x4096xbf16>
) -> tensor<256x4096xbf16> {
  %0 = kn.customized %x, %a, %b, %w grid [2, 64, 1] block [256, 1, 1] forloop 9 plan <tiles = written, loads = tma> {
  ^bb0(%x_1: tensor<256x576xbf16>, %a_1: tensor<576x32xbf16>, %b_1: tensor<32x4096xbf16>, %w_1: tensor<576x4096xbf16>):
    %x_2 = tb.input %x_1 imap [0, -1, -1] fordim 1 : tensor<256x576xbf16> -> !tb.stensor<128x64xbf16>
    %a_2 = tb.input %a_1 imap [-1, -1, -1] fordim 0 : tensor<576x32xbf16> -> !tb.stensor<64x32xbf16>
    %1 = tb.matmul %x_2, %a_2 : (!tb.stensor<128x64xbf16>, !tb.stensor<64x32xbf16>) -> !tb.stensor<128x32xbf16>
    %2 = tb.forloop_accum none %1 : !tb.stensor<128x32xbf16> -> !tb.stensor<128x32xbf16>
    %b_2 = tb.input %b_1 imap [-1, 1, -1] : tensor<32x4096xbf16> -> !tb.stensor<32x64xbf16>
    %3 = tb.matmul %2, %b_2 : (!tb.stensor<128x32xbf16>, !tb.stensor<32x64xbf16>) -> !tb.stensor<128x64xbf16>
    %w_2 = tb.input %w_1 imap [-1, 1, -1] fordim 0 : tensor<576x4096xbf16> -> !tb.stensor<64x64xbf16>
    %4 = tb.matmul %x_2, %w_2 : (!tb.stensor<128x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<128x64xbf16>
    %5 = tb.forloop_accum none %4 : !tb.stensor<128x64xbf16> -> !tb.stensor<128x64xbf16>
    %6 = tb.add %5, %3 : (!tb.stensor<128x64xbf16>, !tb.stensor<128x64xbf16>) -> !tb.stensor<128x64xbf16>
    tb.output %6 omap [0, 1, -1] : !tb.stensor<128x64xbf16> -> tensor<256x4096xbf16>
  } : (tensor<256x576xbf16>, tensor<576x32xbf16>, tensor<32x4096xbf16>, tensor<576x4096xbf16>) -> tensor<256x4096xbf16>
  return %0 : tensor<256x4096xbf16>
}
