// RUN: mg-opt --fuse-kernels %s | filecheck %s

// No strides say heads side by side of an argument that has them one after another. Kernels are cut
// as the argument is, and nothing is copied.
// CHECK-LABEL: func.func @gate
// CHECK-NEXT: kn.transpose
// CHECK-NEXT: kn.reshape %g : tensor<64x512xf16> -> tensor<64x4x128xf16>
// CHECK-NEXT: kn.customized
func.func @gate(%a: tensor<4x64x128xf16>, %g: tensor<64x512xf16>) -> tensor<64x512xf16> {
  %t = kn.transpose %a dims [1, 0, 2] : tensor<4x64x128xf16> -> tensor<64x4x128xf16>
  %m = kn.reshape %t : tensor<64x4x128xf16> -> tensor<64x512xf16>
  %s = kn.sigmoid %g : tensor<64x512xf16> -> tensor<64x512xf16>
  %o = kn.mul %m, %s : (tensor<64x512xf16>, tensor<64x512xf16>) -> tensor<64x512xf16>
  func.return %o : tensor<64x512xf16>
}

// A product along them is one of each head; all are added up.
// CHECK-LABEL: func.func @project
// CHECK: tb.matmul {{.*}}(!tb.stensor<16x16x128xf16>, !tb.stensor<16x128x64xf16>)
// CHECK-NEXT: tb.reduction {{.*}} dim 0
func.func @project(%a: tensor<16x16x128xf16>, %g: tensor<16x2048xf16>, %w: tensor<2048x512xf16>) -> tensor<16x512xf16> {
  %t = kn.transpose %a dims [1, 0, 2] : tensor<16x16x128xf16> -> tensor<16x16x128xf16>
  %m = kn.reshape %t : tensor<16x16x128xf16> -> tensor<16x2048xf16>
  %s = kn.sigmoid %g : tensor<16x2048xf16> -> tensor<16x2048xf16>
  %x = kn.mul %m, %s : (tensor<16x2048xf16>, tensor<16x2048xf16>) -> tensor<16x2048xf16>
  %o = kn.matmul %x, %w : (tensor<16x2048xf16>, tensor<2048x512xf16>) -> tensor<16x512xf16>
  func.return %o : tensor<16x512xf16>
}

// A kernel stores what it computes, and no copy: where others use it, too, it stays by itself.
// CHECK-LABEL: func.func @kept
// CHECK: %[[COPY:.*]] = kn.reshape %{{.*}} : tensor<33x4x2xf16> -> tensor<33x8xf16>
// CHECK-NOT: kn.customized
// CHECK: func.return %[[COPY]],
func.func @kept(%a: tensor<33x2x4xf16>) -> (tensor<33x8xf16>, tensor<33x8xf16>) {
  %t = kn.transpose %a dims [0, 2, 1] : tensor<33x2x4xf16> -> tensor<33x4x2xf16>
  %m = kn.reshape %t : tensor<33x4x2xf16> -> tensor<33x8xf16>
  %s = kn.square %m : tensor<33x8xf16> -> tensor<33x8xf16>
  func.return %m, %s : tensor<33x8xf16>, tensor<33x8xf16>
}
