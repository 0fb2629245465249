// RUN: mg-opt --plan="grid=4 forloop=4 block=64" --retile --split-input-file %s | filecheck %s
// RUN: mg-opt --plan="grid=2,2 along=-1,0" --retile --split-input-file %s | filecheck %s --check-prefix=ROWS

// Twice as many blocks have half as many columns each; tiles of the loop are twice as long.

// CHECK-LABEL: func.func @product
// CHECK:      kn.customized %x, %w grid [4, 1, 1] block [64, 1, 1] forloop 4 plan <tiles = written
// CHECK:        %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x64xf16>
// CHECK-NEXT:   %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x128xf16> -> !tb.stensor<64x32xf16>
// CHECK-NEXT:   %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<16x32xf16>
// CHECK-NEXT:   %a = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
// CHECK-NEXT:   %r = tb.forloop_accum rms %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x1xf16>
// CHECK-NEXT:   %d = tb.div %a, %r
// CHECK-NEXT:   tb.output %d omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x128xf16>

// A new axis cuts the rows, which all operators treat one by one.

// ROWS-LABEL: func.func @product
// ROWS:      kn.customized %x, %w grid [2, 2, 1] block [128, 1, 1] forloop 8 plan <tiles = written
// ROWS:        %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<8x32xf16>
// ROWS-NEXT:   %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x128xf16> -> !tb.stensor<32x64xf16>
// ROWS:        %r = tb.forloop_accum rms %sx : !tb.stensor<8x32xf16> -> !tb.stensor<8x1xf16>
// ROWS:        tb.output %d omap [1, 0, -1] : !tb.stensor<8x64xf16> -> tensor<16x128xf16>
func.func @product(%x: tensor<16x256xf16>, %w: tensor<256x128xf16>) -> tensor<16x128xf16> {
  %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<16x256xf16>, %dw: tensor<256x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x128xf16> -> !tb.stensor<32x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %r = tb.forloop_accum rms %sx : !tb.stensor<16x32xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %a, %r : (!tb.stensor<16x64xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x64xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x128xf16>
  } : (tensor<16x256xf16>, tensor<256x128xf16>) -> tensor<16x128xf16>
  func.return %o : tensor<16x128xf16>
}

// -----

// Nothing was cut by the loop: it cuts what both products sum over, through the second of which the
// parts of the first one's sum go.

// CHECK-LABEL: func.func @lora
// CHECK:      kn.customized %x, %w, %a, %b grid [4, 1, 1] block [64, 1, 1] forloop 4 plan <tiles = written
// CHECK:        %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
// CHECK-NEXT:   %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x128xf16> -> !tb.stensor<16x32xf16>
// CHECK-NEXT:   %sa = tb.input %da imap [-1, -1, -1] fordim 0 : tensor<64x16xf16> -> !tb.stensor<16x16xf16>
// CHECK-NEXT:   %sb = tb.input %db imap [1, -1, -1] : tensor<16x128xf16> -> !tb.stensor<16x32xf16>

// ROWS-LABEL: func.func @lora
// ROWS:        %sx = tb.input %dx imap [-1, 0, -1] : tensor<16x64xf16> -> !tb.stensor<8x64xf16>
// ROWS-NEXT:   %sw = tb.input %dw imap [1, -1, -1] : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
func.func @lora(%x: tensor<16x64xf16>, %w: tensor<64x128xf16>, %a: tensor<64x16xf16>, %b: tensor<16x128xf16>) -> tensor<16x128xf16> {
  %o = kn.customized %x, %w, %a, %b grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<64x128xf16>, %da: tensor<64x16xf16>, %db: tensor<16x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %sa = tb.input %da imap [-1, -1, -1] : tensor<64x16xf16> -> !tb.stensor<64x16xf16>
    %sb = tb.input %db imap [1, -1, -1] : tensor<16x128xf16> -> !tb.stensor<16x64xf16>
    %xw = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<16x64xf16>
    %xa = tb.matmul %sx, %sa : (!tb.stensor<16x64xf16>, !tb.stensor<64x16xf16>) -> !tb.stensor<16x16xf16>
    %xab = tb.matmul %xa, %sb : (!tb.stensor<16x16xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %sum = tb.add %xw, %xab : (!tb.stensor<16x64xf16>, !tb.stensor<16x64xf16>) -> !tb.stensor<16x64xf16>
    %acc = tb.forloop_accum none %sum : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %acc omap [1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x128xf16>
  } : (tensor<16x64xf16>, tensor<64x128xf16>, tensor<64x16xf16>, tensor<16x128xf16>) -> tensor<16x128xf16>
  func.return %o : tensor<16x128xf16>
}
