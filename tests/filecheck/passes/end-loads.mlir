// A mask that clears what is behind a length becomes the end of the load, if it masks nothing else.
// RUN: mg-opt --end-loads %s | filecheck %s
// RUN: mg-opt --end-loads %s | mg-check - %s | filecheck %s --check-prefix PROOF

// CHECK: %t = tb.input %a imap [0, -1, -1] fordim 1 ending [1, 0]
// CHECK-NEXT: %y = tb.input %a imap [0, -1, -1] fordim 1 :
// CHECK-NEXT: %z = tb.mask %y with 1.000000e+00
// CHECK-NEXT: %w = tb.add %t, %z
// PROOF: proved equal
func.func @sums(%all: tensor<8x96xf16>, %count: tensor<1xi32>) -> tensor<8x1xf32> {
  %s = kn.customized %all, %count grid [2, 1, 1] block [32, 1, 1] forloop 3 lengths [1, 96] {
  ^bb0(%a: tensor<8x96xf16>, %n: tensor<1xi32>):
    %t = tb.input %a imap [0, -1, -1] fordim 1 : tensor<8x96xf16> -> !tb.stensor<4x32xf16>
    %x = tb.mask %t with 0.0 where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0] of [8, 96] imap [0, -1, -1] fordim 1 : !tb.stensor<4x32xf16> -> !tb.stensor<4x32xf16>
    %y = tb.input %a imap [0, -1, -1] fordim 1 : tensor<8x96xf16> -> !tb.stensor<4x32xf16>
    %z = tb.mask %y with 1.0 where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0] of [8, 96] imap [0, -1, -1] fordim 1 : !tb.stensor<4x32xf16> -> !tb.stensor<4x32xf16>
    %w = tb.add %x, %z : (!tb.stensor<4x32xf16>, !tb.stensor<4x32xf16>) -> !tb.stensor<4x32xf32>
    %r = tb.forloop_accum sum %w : !tb.stensor<4x32xf32> -> !tb.stensor<4x1xf32>
    tb.output %r omap [0, -1, -1] : !tb.stensor<4x1xf32> -> tensor<8x1xf32>
  } : (tensor<8x96xf16>, tensor<1xi32>) -> tensor<8x1xf32>
  func.return %s : tensor<8x1xf32>
}
