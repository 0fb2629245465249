// A kernel that rotates heads keeps the halves of a head apart, each as windows, so that a half can be cut.

// RUN: mg-opt --separate-halves=arch=h200 %s | filecheck %s
// RUN: mg-opt --separate-halves=arch=h200 --plan=arch=h200 --retile %s | filecheck %s --check-prefix PLANNED
// RUN: mg-opt --separate-halves=arch=sm_80 %s | filecheck %s --check-prefix WAITS

// CHECK:      func.func @rotated
// CHECK:      %o = kn.customized %x, %w, %c
// CHECK:        %sw = tb.input %dw modes {{.*}} origin [0, 0, 0] imap [0, -1, -1] {{.*}} -> !tb.stensor<1x2048x32xbf16>
// CHECK-NEXT:   %sw_1 = tb.input %dw modes {{.*}} origin [0, 0, 32] imap [0, -1, -1] {{.*}} -> !tb.stensor<1x2048x32xbf16>
// CHECK-NEXT:   %m = tb.matmul %sx, %sw
// CHECK-NEXT:   %m_1 = tb.matmul %sx, %sw_1
// CHECK-NOT:    tb.split
// CHECK:        tb.concat {{.*}} dim 1 : {{.*}} -> !tb.stensor<1x2x32xbf16>
// CHECK-NEXT:   tb.output {{.*}} -> tensor<8x2x32xbf16, #cute.layout<(8,2,32):(64,32,1)>>
// CHECK:      kn.view {{.*}} -> tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>

// Where no kernel starts before the one in front of it has ended, nothing is gained.
// WAITS-NOT: modes
// WAITS:     tb.split

// All weights of a block are on their way before it waits, and nobody adds up parts.
// PLANNED: kn.customized {{.*}} grid [8, 4, 1] {{.*}} forloop 4 plan <tiles = written, loads = cp_async, stages = [4], pdl = early
func.func @rotated(%x: tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, %w: tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>> {mugraph.constant}, %c: tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>) -> tensor<8x1x64xbf16> {
  %o = kn.customized %x, %w, %c grid [8, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, %dw: tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>>, %dc: tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>> -> !tb.stensor<1x1x2048xbf16>
    %sw = tb.input %dw imap [0, -1, -1] : tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>> -> !tb.stensor<1x2048x64xbf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x2048xbf16>, !tb.stensor<1x2048x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    %sc = tb.input %dc imap [-1, -1, -1] : tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>> -> !tb.stensor<1x1x64xbf16>
    %a, %b = tb.split %m dim 2 : (!tb.stensor<1x1x64xbf16>) -> (!tb.stensor<1x1x32xbf16>, !tb.stensor<1x1x32xbf16>)
    %n = tb.mul_scalar %b by -1.0 : !tb.stensor<1x1x32xbf16> -> !tb.stensor<1x1x32xbf16>
    %r = tb.concat %n, %a dim 2 : (!tb.stensor<1x1x32xbf16>, !tb.stensor<1x1x32xbf16>) -> !tb.stensor<1x1x64xbf16>
    %p = tb.mul %r, %sc : (!tb.stensor<1x1x64xbf16>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    %y = tb.add %m, %p : (!tb.stensor<1x1x64xbf16>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<1x1x64xbf16> -> tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>
  } : (tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>>, tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>) -> tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>
  %z = kn.customized %o grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%do: tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>):
    %so = tb.input %do imap [-1, -1, -1] : tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>> -> !tb.stensor<8x1x64xbf16>
    %e = tb.exp %so : !tb.stensor<8x1x64xbf16> -> !tb.stensor<8x1x64xbf16>
    tb.output %e omap [-1, -1, -1] : !tb.stensor<8x1x64xbf16> -> tensor<8x1x64xbf16>
  } : (tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>) -> tensor<8x1x64xbf16>
  func.return %z : tensor<8x1x64xbf16>
}

// Rows that numbers name are stored there still.
// CHECK-LABEL: func.func @with_named_rows
// CHECK-NOT:     tb.split
// CHECK:         tb.output %ss through %dt omap [0, -1, -1] : !tb.stensor<1x64xbf16>, tensor<8xi32> -> tensor<6x64xbf16>
func.func @with_named_rows(%x: tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, %w: tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>> {mugraph.constant}, %c: tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>, %s: tensor<8x64xbf16>, %t: tensor<8xi32>) -> (tensor<8x1x64xbf16>, tensor<6x64xbf16>) {
  %o, %q = kn.customized %x, %w, %c, %s, %t grid [8, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, %dw: tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>>, %dc: tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>, %ds: tensor<8x64xbf16>, %dt: tensor<8xi32>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>> -> !tb.stensor<1x1x2048xbf16>
    %sw = tb.input %dw imap [0, -1, -1] : tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>> -> !tb.stensor<1x2048x64xbf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x2048xbf16>, !tb.stensor<1x2048x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    %sc = tb.input %dc imap [-1, -1, -1] : tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>> -> !tb.stensor<1x1x64xbf16>
    %a, %b = tb.split %m dim 2 : (!tb.stensor<1x1x64xbf16>) -> (!tb.stensor<1x1x32xbf16>, !tb.stensor<1x1x32xbf16>)
    %n = tb.mul_scalar %b by -1.0 : !tb.stensor<1x1x32xbf16> -> !tb.stensor<1x1x32xbf16>
    %r = tb.concat %n, %a dim 2 : (!tb.stensor<1x1x32xbf16>, !tb.stensor<1x1x32xbf16>) -> !tb.stensor<1x1x64xbf16>
    %p = tb.mul %r, %sc : (!tb.stensor<1x1x64xbf16>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    %y = tb.add %m, %p : (!tb.stensor<1x1x64xbf16>, !tb.stensor<1x1x64xbf16>) -> !tb.stensor<1x1x64xbf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<1x1x64xbf16> -> tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>
    %ss = tb.input %ds imap [0, -1, -1] : tensor<8x64xbf16> -> !tb.stensor<1x64xbf16>
    tb.output %ss through %dt omap [0, -1, -1] : !tb.stensor<1x64xbf16>, tensor<8xi32> -> tensor<6x64xbf16>
  } : (tensor<1x1x2048xbf16, #cute.layout<(1,1,2048):(2048,2048,1)>>, tensor<8x2048x64xbf16, #cute.layout<(8,2048,64):(131072,1,2048)>>, tensor<1x1x64xbf16, #cute.layout<(1,1,64):(64,64,1)>>, tensor<8x64xbf16>, tensor<8xi32>) -> (tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>, tensor<6x64xbf16>)
  %z = kn.customized %o grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%do: tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>):
    %so = tb.input %do imap [-1, -1, -1] : tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>> -> !tb.stensor<8x1x64xbf16>
    %e = tb.exp %so : !tb.stensor<8x1x64xbf16> -> !tb.stensor<8x1x64xbf16>
    tb.output %e omap [-1, -1, -1] : !tb.stensor<8x1x64xbf16> -> tensor<8x1x64xbf16>
  } : (tensor<8x1x64xbf16, #cute.layout<(8,1,64):(64,64,1)>>) -> tensor<8x1x64xbf16>
  func.return %z, %q : tensor<8x1x64xbf16>, tensor<6x64xbf16>
}
