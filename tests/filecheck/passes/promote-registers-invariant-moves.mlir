// A tile that is put together of what no iteration moves is so before the loop.
// RUN: mg-opt --plan="tiles=written" --transpile %s | filecheck %s

// CHECK-LABEL: sched.kernel @turned_custom0
// CHECK:      sched.prologue {
// CHECK:        sched.move
// CHECK:        sched.move
// CHECK:      sched.forloop 4
// CHECK-NOT:    sched.move
// CHECK:      sched.epilogue {
func.func @turned(%a: tensor<64x32xf16>, %b: tensor<64x32xf16>, %w: tensor<256x64xf16>) -> tensor<64x64xf16> {
  %y = kn.customized %a, %b, %w grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%da: tensor<64x32xf16>, %db: tensor<64x32xf16>, %dw: tensor<256x64xf16>):
    %s = tb.input %da imap [-1, -1, -1] : tensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %t = tb.input %db imap [-1, -1, -1] : tensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %c = tb.concat %s, %t dim 1 : (!tb.stensor<64x32xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<64x64xf16>
    %u = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x64xf16>
    %p = tb.matmul %c, %u : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %sum = tb.forloop_accum none %p : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x32xf16>, tensor<64x32xf16>, tensor<256x64xf16>) -> tensor<64x64xf16>
  func.return %y : tensor<64x64xf16>
}
