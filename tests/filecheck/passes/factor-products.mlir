// Scales of groups leave a product of weights of 4 bits, whose halves are multiplied one by one.
// RUN: mg-opt --factor-products %s | filecheck %s
// RUN: mg-opt --factor-products %s | mg-check - %s | filecheck %s --check-prefix PROOF

func.func @f(%w: tensor<4x1x16x64xi8>, %s: tensor<4x1x1x64xbf16>, %x: tensor<4x2x16x16xbf16>) -> tensor<1x1x16x64xbf16> {
  %o = kn.customized %w, %s, %x grid [1, 1, 1] block [128, 1, 1] forloop 4 {
  ^bb0(%dw: tensor<4x1x16x64xi8>, %ds: tensor<4x1x1x64xbf16>, %dx: tensor<4x2x16x16xbf16>):
    %p = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<4x1x16x64xi8> -> !tb.stensor<1x1x16x64xi8>
    %b = tb.cast %p : !tb.stensor<1x1x16x64xi8> -> !tb.stensor<1x1x16x64xf32>
    %l = tb.bits %b from 0.0 count 4.0 : !tb.stensor<1x1x16x64xf32> -> !tb.stensor<1x1x16x64xf32>
    %h = tb.bits %b from 4.0 count 4.0 : !tb.stensor<1x1x16x64xf32> -> !tb.stensor<1x1x16x64xf32>
    %n = tb.concat %l, %h dim 1 : (!tb.stensor<1x1x16x64xf32>, !tb.stensor<1x1x16x64xf32>) -> !tb.stensor<1x2x16x64xf32>
    %sc = tb.input %ds imap [-1, -1, -1] fordim 0 : tensor<4x1x1x64xbf16> -> !tb.stensor<1x1x1x64xbf16>
    %d = tb.mul %n, %sc : (!tb.stensor<1x2x16x64xf32>, !tb.stensor<1x1x1x64xbf16>) -> !tb.stensor<1x2x16x64xbf16>
    %sx = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<4x2x16x16xbf16> -> !tb.stensor<1x2x16x16xbf16>
    %m = tb.matmul %sx, %d : (!tb.stensor<1x2x16x16xbf16>, !tb.stensor<1x2x16x64xbf16>) -> !tb.stensor<1x2x16x64xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<1x2x16x64xf32> -> !tb.stensor<1x2x16x64xf32>
    %r = tb.reduction %a dim 1 : !tb.stensor<1x2x16x64xf32> -> !tb.stensor<1x1x16x64xbf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<1x1x16x64xbf16> -> tensor<1x1x16x64xbf16>
  } : (tensor<4x1x16x64xi8>, tensor<4x1x1x64xbf16>, tensor<4x2x16x16xbf16>) -> tensor<1x1x16x64xbf16>
  func.return %o : tensor<1x1x16x64xbf16>
}

// Both products are one sum before it is scaled.
// CHECK:      %[[L:.*]] = tb.bits %{{.*}} from 0.000000e+00
// CHECK:      %[[H:.*]] = tb.bits %{{.*}} from 4.000000e+00
// CHECK:      %[[X0:.*]], %[[X1:.*]] = tb.split %{{.*}} dim 1
// CHECK:      %[[W0:.*]] = tb.cast %[[L]] {{.*}}xbf16>
// CHECK-NEXT: %[[P0:.*]] = tb.matmul %[[X0]], %[[W0]]
// CHECK:      %[[W1:.*]] = tb.cast %[[H]] {{.*}}xbf16>
// CHECK-NEXT: %[[P1:.*]] = tb.matmul %[[X1]], %[[W1]]
// CHECK:      %[[P:.*]] = tb.add %[[P0]], %[[P1]]
// CHECK-NEXT: %[[S:.*]] = tb.mul %[[P]], %{{.*}} :
// CHECK-NEXT: tb.forloop_accum none %[[S]]

// PROOF: proved equal
