// Rows of 1009 elements of f16 start at no multiples of 16 bytes: the kernel gets a copy, whose rows are padded.
// RUN: mg-opt --pad-rows %s | filecheck %s
// RUN: mg-opt --pad-rows %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --transpile %s 2>/dev/null | filecheck %s --check-prefix LAYOUT

// CHECK: [[COPY:%.*]] = kn.copy %w : tensor<1024x1009xf16> -> tensor<1024x1009xf16>
// CHECK-NEXT: kn.customized %x, [[COPY]] grid
// PROOF: proved equal
// LAYOUT: kn.copy {{.*}} -> tensor<1024x1009xf16, #cute.layout<(1024,1009):(1016,1)>>
func.func @large(%x: tensor<1024x1024xf16>, %w: tensor<1024x1009xf16>) -> tensor<1024x1009xf16> {
  %o = kn.customized %x, %w grid [16, 16, 1] block [128, 1, 1] forloop 16 {
  ^bb0(%dx: tensor<1024x1024xf16>, %dw: tensor<1024x1009xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<1024x1024xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1024x1009xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %a omap [1, 0, -1] : !tb.stensor<64x64xf16> -> tensor<1024x1009xf16>
  } : (tensor<1024x1024xf16>, tensor<1024x1009xf16>) -> tensor<1024x1009xf16>
  func.return %o : tensor<1024x1009xf16>
}
