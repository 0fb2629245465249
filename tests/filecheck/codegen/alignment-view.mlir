// A view starts where its tensor does: vectors are no wider than that one's alignment, which a call checks.
// RUN: mg-opt --plan=tiles=written --transpile %s | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix HOST

// CHECK: sched.copy %d_tile to %s by <64, vector 1,
// HOST: mugraph::check_alignment(input_tensors.at(0), 2, "input 0 (x)");
func.func @viewed(%x: tensor<1024xf16> {mugraph.alignment = 2 : i64}) -> tensor<16x64xf16> {
  %v = kn.reshape %x : tensor<1024xf16> -> tensor<16x64xf16>
  %o = kn.customized %v grid [1, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%d: tensor<16x64xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %r = tb.reduction %s dim 0 : !tb.stensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %p = tb.mul %s, %r : (!tb.stensor<16x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %p omap [-1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
