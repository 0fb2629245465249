// A loop of one iteration needs no accumulator: passes that treat what stands after the loop in another way put it in.
// RUN: mg-opt --decompose-threadblock %s > %t.decomposed.mlir
// RUN: filecheck %s < %t.decomposed.mlir
// RUN: mg-check %s %t.decomposed.mlir | filecheck %s --check-prefix EQUAL
// RUN: mg-run %s --check | filecheck %s --check-prefix RESULT
// RUN: mg-opt --plan=tiles=written --transpile --verify-semantics %s 2>&1 >%t.verified | filecheck %s --check-prefix VERIFIED
// RUN: mg-opt --resolve-layout --lower-threadblock --pipeline-loads %s > %t.scheduled.mlir
// RUN: mg-run %t.scheduled.mlir --check | filecheck %s --check-prefix RESULT
// RUN: mg-opt --plan="kernel=0 forloop=4" --retile %s | filecheck %s --check-prefix RETILED

// EQUAL: proved equal
// RESULT: output 0, 16x32 float16: relative error
// RESULT: output 1, 16x32 int8: relative error
// VERIFIED: computes the same after each of

// A value of the loop body beside one after the loop; integers of 8 bits are stored in the iteration.
// CHECK:      %m = tb.matmul %sx, %sw
// CHECK-NEXT: %m_1 = tb.forloop_accum none %m
// CHECK:      tb.add %s, %m_1
// CHECK:      %q = tb.cast
// CHECK-NEXT: tb.output %q omap [0, -1, -1] fordim 0 :

// The product is added up where the loop has more iterations.
// RETILED: forloop 4
// RETILED: %m = tb.matmul %sx, %sw : (!tb.stensor<8x16xf16>, !tb.stensor<16x32xf16>)
// RETILED-NEXT: tb.forloop_accum none %m

func.func @f(%x: tensor<16x64xf16>, %w: tensor<64x32xf16>) -> (tensor<16x32xf16>, tensor<16x32xi8>) {
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<64x32xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<8x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<8x32xf16>
    %a = tb.forloop_accum none %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %s = tb.reduction %a dim 1 : !tb.stensor<8x64xf16> -> !tb.stensor<8x1xf16>
    %d = tb.add %s, %m : (!tb.stensor<8x1xf16>, !tb.stensor<8x32xf16>) -> !tb.stensor<8x32xf16>
    tb.output %d omap [0, -1, -1] : !tb.stensor<8x32xf16> -> tensor<16x32xf16>
  } : (tensor<16x64xf16>, tensor<64x32xf16>) -> tensor<16x32xf16>
  %i = kn.customized %o grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%do: tensor<16x32xf16>):
    %so = tb.input %do imap [0, -1, -1] : tensor<16x32xf16> -> !tb.stensor<8x32xf16>
    %q = tb.cast %so : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xi8>
    tb.output %q omap [0, -1, -1] : !tb.stensor<8x32xi8> -> tensor<16x32xi8>
  } : (tensor<16x32xf16>) -> tensor<16x32xi8>
  func.return %o, %i : tensor<16x32xf16>, tensor<16x32xi8>
}
