// RUN: mg-opt %s --fuse-kernels | filecheck %s

// The first part of a tensor is a view of its memory, also for a custom kernel that is written.
// CHECK:      %c = kn.view %x : tensor<128x256xf16, #cute.layout<(128,256):(256,1)>> -> tensor<128x128xf16, #cute.layout<(128,128):(256,1)>>
// CHECK-NEXT: %y = kn.customized %c
// CHECK-NEXT: ^bb0(%dc: tensor<128x128xf16, #cute.layout<(128,128):(256,1)>>):
func.func @first_part(%x: tensor<128x256xf16>) -> tensor<128x128xf16> {
  %c = kn.slice %x from [0, 0] : tensor<128x256xf16> -> tensor<128x128xf16>
  %y = kn.customized %c grid [8, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dc: tensor<128x128xf16>):
    %s = tb.input %dc imap [0, -1, -1] : tensor<128x128xf16> -> !tb.stensor<16x128xf16>
    %e = tb.exp %s : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<16x128xf16> -> tensor<128x128xf16>
  } : (tensor<128x128xf16>) -> tensor<128x128xf16>
  func.return %y : tensor<128x128xf16>
}
