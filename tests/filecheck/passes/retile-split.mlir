// RUN: mg-opt --plan="forloop=8 split-k=4" --retile %s | filecheck %s
// RUN: mg-opt --plan="forloop=8 split-k=4" --retile --plan --retile %s | filecheck %s --check-prefix=SPREAD

// Each of four blocks along the new axis accumulates over two iterations and stores what it has,
// the four parts one after the other along dimension 0; the second kernel has one an iteration, or,
// once it is planned, all of them at once.

// CHECK-LABEL: func.func @attention
// CHECK:      %n_parts, %l_parts = kn.customized %q, %k, %v grid [2, 2, 4] block [64, 1, 1] forloop 2 plan <tiles = written
// CHECK:        %sk = tb.input %dk imap [0, -1, 2] fordim 2
// CHECK-NEXT:   %sv = tb.input %dv imap [0, -1, 1] fordim 1
// CHECK:        %n = tb.forloop_accum none %p : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf32>
// CHECK-NEXT:   %l = tb.forloop_accum sum %e : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x1xf32>
// CHECK-NEXT:   tb.output %n omap [0, 1, 0] : !tb.stensor<1x16x16xf32> -> tensor<8x32x16xf32>
// CHECK-NEXT:   tb.output %l omap [0, 1, 0] : !tb.stensor<1x16x1xf32> -> tensor<8x32x1xf32>
// CHECK:      %o = kn.customized %n_parts, %l_parts grid [2, 2, 1] block [64, 1, 1] forloop 4 plan <split_k = 1> {
// CHECK:        %n_part = tb.input %n_parts_1 imap [0, 1, -1] fordim 0 : tensor<8x32x16xf32> -> !tb.stensor<1x16x16xf32>
// CHECK-NEXT:   %n_part_1 = tb.reduction %n_part dim 0
// CHECK-NEXT:   %n = tb.forloop_accum none %n_part_1 : !tb.stensor<1x16x16xf32> -> !tb.stensor<1x16x16xf16>
// CHECK:        %l = tb.forloop_accum none %l_part
// CHECK-NEXT:   %r = tb.div %n, %l

// SPREAD:     %o = kn.customized %n_parts, %l_parts grid [2, {{[0-9]+}}, {{[0-9]+}}] block {{.*}} forloop 1 plan <tiles = written{{.*}}
// SPREAD:       %n_part = tb.input %n_parts_1 imap [0, 1, {{.*}}] fordim 0 : tensor<8x32x16xf32> -> !tb.stensor<4x{{.*}}xf32>
// SPREAD-NEXT:  %n_part_1 = tb.reduction %n_part dim 0
func.func @attention(%q: tensor<2x32x16xf16>, %k: tensor<2x16x128xf16>, %v: tensor<2x128x16xf16>) -> tensor<2x32x16xf16> {
  %o = kn.customized %q, %k, %v grid [2, 2, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dq: tensor<2x32x16xf16>, %dk: tensor<2x16x128xf16>, %dv: tensor<2x128x16xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<2x32x16xf16> -> !tb.stensor<1x16x16xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<2x16x128xf16> -> !tb.stensor<1x16x32xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1 : tensor<2x128x16xf16> -> !tb.stensor<1x32x16xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x32xf16>) -> !tb.stensor<1x16x32xf16>
    %e = tb.exp %s : !tb.stensor<1x16x32xf16> -> !tb.stensor<1x16x32xf16>
    %p = tb.matmul %e, %sv : (!tb.stensor<1x16x32xf16>, !tb.stensor<1x32x16xf16>) -> !tb.stensor<1x16x16xf16>
    %n = tb.forloop_accum none %p : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<1x16x32xf16> -> !tb.stensor<1x16x1xf16>
    %r = tb.div %n, %l : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x1xf16>) -> !tb.stensor<1x16x16xf16>
    tb.output %r omap [0, 1, -1] : !tb.stensor<1x16x16xf16> -> tensor<2x32x16xf16>
  } : (tensor<2x32x16xf16>, tensor<2x16x128xf16>, tensor<2x128x16xf16>) -> tensor<2x32x16xf16>
  func.return %o : tensor<2x32x16xf16>
}

// Blocks divide rows of several elements: the parts lie along the columns, which a block has all of,
// so that the second kernel may have fewer rows a block.

// CHECK-LABEL: func.func @rows
// CHECK:        tb.output %a omap [0, 1, -1] : !tb.stensor<64x256xf32> -> tensor<512x1024xf32>
// CHECK:        %a_part = tb.input %a_parts_1 imap [0, -1, -1] fordim 1 : tensor<512x1024xf32> -> !tb.stensor<64x256xf32>
// SPREAD-LABEL: func.func @rows
// SPREAD:     kn.customized %a_parts grid [128, 1, 1]
func.func @rows(%x: tensor<512x128xf16>, %w: tensor<128x256xf16>) -> tensor<512x256xf16> {
  %o = kn.customized %x, %w grid [8, 1, 1] block [64, 1, 1] forloop 8 {
  ^bb0(%dx: tensor<512x128xf16>, %dw: tensor<128x256xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<512x128xf16> -> !tb.stensor<64x16xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<128x256xf16> -> !tb.stensor<16x256xf16>
    %p = tb.matmul %sx, %sw : (!tb.stensor<64x16xf16>, !tb.stensor<16x256xf16>) -> !tb.stensor<64x256xf16>
    %a = tb.forloop_accum none %p : !tb.stensor<64x256xf16> -> !tb.stensor<64x256xf16>
    %s = tb.reduction %a dim 1 : !tb.stensor<64x256xf16> -> !tb.stensor<64x1xf16>
    %r = tb.div %a, %s : (!tb.stensor<64x256xf16>, !tb.stensor<64x1xf16>) -> !tb.stensor<64x256xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<64x256xf16> -> tensor<512x256xf16>
  } : (tensor<512x128xf16>, tensor<128x256xf16>) -> tensor<512x256xf16>
  func.return %o : tensor<512x256xf16>
}
