// RUN: mg-opt --decompose-threadblock %s > %t.decomposed.mlir
// RUN: filecheck %s < %t.decomposed.mlir
// RUN: mg-opt --transpile="arch=sm_90a" --verify-semantics %s 2>&1 >%t.hopper | filecheck %s --check-prefix VERIFIED
// RUN: mg-opt --transpile --verify-semantics %s 2>&1 >%t.verified | filecheck %s --check-prefix VERIFIED

// VERIFIED: @invariant computes the same after each of
// VERIFIED: @batched computes the same after each of

// What is made of tiles that are loaded once may be used in the loop and after it, where it is computed once more.
// CHECK-LABEL: func.func @invariant
// CHECK:      %e = tb.exp %sw
// CHECK-NEXT: %e_1 = tb.exp %sw
// CHECK:      tb.matmul %sx, %e :
// CHECK:      tb.matmul %a, %e_1 :
// CHECK:      %q = tb.square %sw
func.func @invariant(%x: tensor<16x64xf16>, %w: tensor<32x32xf16>) -> (tensor<16x32xf16>, tensor<32x32xf16>) {
  %o, %p = kn.customized %x, %w grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<32x32xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<32x32xf16> -> !tb.stensor<32x32xf16>
    %e = tb.exp %sw : !tb.stensor<32x32xf16> -> !tb.stensor<32x32xf16>
    %m = tb.matmul %sx, %e : (!tb.stensor<16x32xf16>, !tb.stensor<32x32xf16>) -> !tb.stensor<16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    %y = tb.matmul %a, %e : (!tb.stensor<16x32xf16>, !tb.stensor<32x32xf16>) -> !tb.stensor<16x32xf16>
    %q = tb.square %sw : !tb.stensor<32x32xf16> -> !tb.stensor<32x32xf16>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x32xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<32x32xf16> -> tensor<32x32xf16>
  } : (tensor<16x64xf16>, tensor<32x32xf16>) -> (tensor<16x32xf16>, tensor<32x32xf16>)
  func.return %o, %p : tensor<16x32xf16>, tensor<32x32xf16>
}

// A batched product is cut into matrices, also a right operand that is loaded once.
// CHECK-LABEL: func.func @batched
// CHECK:      tb.split %sv
func.func @batched(%x: tensor<2x16x64xf16>, %w: tensor<2x64x32xf16>, %v: tensor<2x32x8xf16>) -> tensor<2x16x8xf16> {
  %o = kn.customized %x, %w, %v grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<2x16x64xf16>, %dw: tensor<2x64x32xf16>, %dv: tensor<2x32x8xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 2 : tensor<2x16x64xf16> -> !tb.stensor<2x16x32xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 1 : tensor<2x64x32xf16> -> !tb.stensor<2x32x32xf16>
    %sv = tb.input %dv imap [-1, -1, -1] : tensor<2x32x8xf16> -> !tb.stensor<2x32x8xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<2x16x32xf16>, !tb.stensor<2x32x32xf16>) -> !tb.stensor<2x16x32xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<2x16x32xf16> -> !tb.stensor<2x16x32xf16>
    %y = tb.matmul %a, %sv : (!tb.stensor<2x16x32xf16>, !tb.stensor<2x32x8xf16>) -> !tb.stensor<2x16x8xf16>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<2x16x8xf16> -> tensor<2x16x8xf16>
  } : (tensor<2x16x64xf16>, tensor<2x64x32xf16>, tensor<2x32x8xf16>) -> tensor<2x16x8xf16>
  func.return %o : tensor<2x16x8xf16>
}
