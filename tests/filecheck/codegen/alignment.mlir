// Vectors of a tile are no wider than its tensor's alignment, and pointers are checked before the first launch.
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile %s | filecheck %s --check-prefix IR

// An asynchronous copy moves 4, 8 or 16 bytes; the tensor of 2 bytes is moved element by element.
// IR: sched.copy %f_tile to %u by <64, vector 1,
// IR: sched.copy async %d_tile to %s by <64, vector 8,
// IR: sched.copy async %e_tile to %t by <64, vector 2,
// IR: sched.copy %{{.*}} to %{{.*}} by <64, vector 4,
// CHECK:      _execute_mugraph(
// CHECK-NEXT:   mugraph::check_alignment(input_tensors.at(0), 16, "input 0 (x)");
// CHECK-NEXT:   mugraph::check_alignment(input_tensors.at(1), 4, "input 1 (y)");
// CHECK-NEXT:   mugraph::check_alignment(input_tensors.at(2), 2, "input 2 (z)");
// CHECK-NEXT:   mugraph::check_alignment(output_tensors.at(0), 8, "output 0 (o)");
// CHECK-NEXT:   {
func.func @aligned(%x: tensor<16x64xf16>, %y: tensor<16x64xf16> {mugraph.alignment = 4 : i64}, %z: tensor<16x64xf16> {mugraph.alignment = 2 : i64}, %v: tensor<16x64xf16> {mugraph.alignment = 2 : i64}) -> (tensor<16x64xf16> {mugraph.alignment = 8 : i64}, tensor<16x64xf16>) {
  %o = kn.customized %x, %y, %z grid [1, 1, 1] block [64, 1, 1] forloop 2 {
  ^bb0(%d: tensor<16x64xf16>, %e: tensor<16x64xf16>, %f: tensor<16x64xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 0 : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %t = tb.input %e imap [-1, -1, -1] fordim 0 : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %u = tb.input %f imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %m = tb.mul %s, %t : (!tb.stensor<8x64xf16>, !tb.stensor<8x64xf16>) -> !tb.stensor<8x64xf16>
    %a = tb.forloop_accum sum %m : !tb.stensor<8x64xf16> -> !tb.stensor<8x1xf16>
    %r = tb.reduction %u dim 0 : !tb.stensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %b = tb.forloop_accum none %r : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %p = tb.mul %u, %b : (!tb.stensor<16x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<16x64xf16>
    tb.output %p omap [-1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<16x64xf16>, tensor<16x64xf16>) -> tensor<16x64xf16>
  %w = kn.exp %v : tensor<16x64xf16> -> tensor<16x64xf16>
  func.return %o, %w : tensor<16x64xf16>, tensor<16x64xf16>
}
