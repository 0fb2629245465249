// RUN: mg-opt --fuse-threadblock %s | filecheck %s

// The figure "tb-fusion-chain": two chains, led by the matmul and by the addition.
// CHECK-LABEL: func.func @figure
// CHECK:      %e = tb.matmul %a, %b then [exp, exp] : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
// CHECK-NEXT: %acc = tb.add %e, %c then [accum]
// CHECK-NEXT: tb.output %acc
func.func @figure(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<8x8xf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %b = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %c = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %m = tb.matmul %a, %b : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %m2 = tb.exp %m : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.exp %m2 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %s = tb.add %e, %c : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %acc = tb.forloop_accum none %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %acc omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// CHECK-LABEL: func.func @limits
func.func @limits(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<8x8xf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    // An input leads no chain.
    // CHECK: %e = tb.exp %a then [accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf32>
    %0 = tb.exp %a : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.forloop_accum none %0 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf32>
    // Nothing is fused behind an accumulation: it runs after the loop.
    // CHECK-NEXT: %r = tb.sqrt %e then [silu] :
    %1 = tb.sqrt %e : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf32>
    %r = tb.silu %1 : !tb.stensor<8x8xf32> -> !tb.stensor<8x8xf16>
    // A value with two consumers is kept.
    // CHECK-NEXT: %k = tb.exp %a : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    // CHECK-NEXT: %q = tb.square %k then [mul_scalar(0.5), accum] :
    // CHECK-NEXT: %t = tb.forloop_accum none %k
    %k = tb.exp %a : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %2 = tb.square %k : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %3 = tb.mul_scalar %2 by 0.5 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %q = tb.forloop_accum none %3 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %t = tb.forloop_accum none %k : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    // A binary operator is never a tail, and a reducing accumulator neither leads nor follows.
    // CHECK-NEXT: %u = tb.add %q, %t then [exp] :
    // CHECK-NEXT: %v = tb.add %u, %r :
    // CHECK-NEXT: %w = tb.sub %a, %k :
    // CHECK-NEXT: %rms = tb.forloop_accum rms %w
    // CHECK-NEXT: %z = tb.sqrt %rms :
    // CHECK-NEXT: %y = tb.reduction %v dim 1 then [sqrt] :
    %4 = tb.add %q, %t : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %u = tb.exp %4 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %v = tb.add %u, %r : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %w = tb.sub %a, %k : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %rms = tb.forloop_accum rms %w : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    %z = tb.sqrt %rms : !tb.stensor<8x1xf16> -> !tb.stensor<8x1xf16>
    %5 = tb.reduction %v dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    %y = tb.sqrt %5 : !tb.stensor<8x1xf16> -> !tb.stensor<8x1xf16>
    %p = tb.mul %y, %z : (!tb.stensor<8x1xf16>, !tb.stensor<8x1xf16>) -> !tb.stensor<8x1xf16>
    tb.output %p omap [-1, -1, -1] : !tb.stensor<8x1xf16> -> tensor<8x1xf16>
  } : (tensor<8x8xf16>) -> tensor<8x1xf16>
  func.return
}

// A cast to integers rounds before its results are added up; one of integers has nothing to round.
// CHECK-LABEL: func.func @casts_to_integers
func.func @casts_to_integers(%x: tensor<8x8xf16>, %y: tensor<8x8xi8>) {
  %o:2 = kn.customized %x, %y grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x8xf16>, %dy: tensor<8x8xi8>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %sy = tb.input %dy imap [-1, -1, -1] : tensor<8x8xi8> -> !tb.stensor<8x8xi8>
    // CHECK: %whole = tb.cast %sx :
    // CHECK-NEXT: %a = tb.forloop_accum none %whole
    %whole = tb.cast %sx : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xi32>
    %a = tb.forloop_accum none %whole : !tb.stensor<8x8xi32> -> !tb.stensor<8x8xi32>
    // CHECK-NEXT: %b = tb.cast %sy then [accum] :
    %wide = tb.cast %sy : !tb.stensor<8x8xi8> -> !tb.stensor<8x8xi32>
    %b = tb.forloop_accum none %wide : !tb.stensor<8x8xi32> -> !tb.stensor<8x8xi32>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<8x8xi32> -> tensor<8x8xi32>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<8x8xi32> -> tensor<8x8xi32>
  } : (tensor<8x8xf16>, tensor<8x8xi8>) -> (tensor<8x8xi32>, tensor<8x8xi32>)
  func.return
}
