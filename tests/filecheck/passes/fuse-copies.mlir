// RUN: mg-opt --fuse-kernels %s | filecheck %s

// What is for several devices is stored once for each by the kernel that makes it.
// CHECK: kn.customized %x, %w
// CHECK: tb.output [[Y:%.*]] omap
// CHECK-NEXT: tb.output [[Y]] omap
// CHECK-NOT: kn.copy
func.func @f(%x: tensor<16x256xbf16>, %w: tensor<256x128xbf16>) -> (tensor<16x128xbf16>, tensor<16x128xbf16>) {
  %y = kn.matmul %x, %w : (tensor<16x256xbf16>, tensor<256x128xbf16>) -> tensor<16x128xbf16>
  %0 = kn.copy %y place 0 : tensor<16x128xbf16> -> tensor<16x128xbf16>
  %1 = kn.copy %y place 1 : tensor<16x128xbf16> -> tensor<16x128xbf16>
  func.return %0, %1 : tensor<16x128xbf16>, tensor<16x128xbf16>
}
