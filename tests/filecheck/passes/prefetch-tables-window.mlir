// Requests for tiles of a table are in bounds: a window asks only for the iterations that a block has.

// RUN: mg-opt --fuse-kernels --transpile=arch=sm_90a -t cuda %s 2>/dev/null | filecheck %s

// CHECK:      tb::Span const span =
// CHECK:      if (thread == 0) tb::prefetch({{.*}} + span.first * 4096, 8192);
// CHECK-NEXT: if (thread == 0 && 1 < span.count) tb::prefetch({{.*}} + (span.first + 1) * 4096, 8192);
func.func @window(%at: tensor<1xi32>, %nk: tensor<64x1x64xf16>, %tk: tensor<64x256x64xf16>, %nv: tensor<64x1x64xf16>, %tv: tensor<64x256x64xf16>, %q: tensor<64x8x64xf16>) -> (tensor<64x256x64xf16>, tensor<64x256x64xf16>, tensor<64x8x64xf16>) {
  %0 = kn.scatter %nk into %tk rows %at dim 1 : (tensor<64x1x64xf16>, tensor<64x256x64xf16>, tensor<1xi32>) -> tensor<64x256x64xf16>
  %1 = kn.scatter %nv into %tv rows %at dim 1 : (tensor<64x1x64xf16>, tensor<64x256x64xf16>, tensor<1xi32>) -> tensor<64x256x64xf16>
  %2 = kn.transpose %0 dims [0, 2, 1] : tensor<64x256x64xf16> -> tensor<64x64x256xf16>
  %3 = kn.matmul %q, %2 : (tensor<64x8x64xf16>, tensor<64x64x256xf16>) -> tensor<64x8x256xf16>
  %4 = kn.mask %3 where affine_set<(d0, d1, d2) : (((d1 + (d2 * -1)) + 248) >= 0, (((d1 * -1) + d2) + -217) >= 0)> else -inf : tensor<64x8x256xf16> -> tensor<64x8x256xf16>
  %5 = kn.softmax %4 dim 2 : tensor<64x8x256xf16> -> tensor<64x8x256xf16>
  %6 = kn.matmul %5, %1 : (tensor<64x8x256xf16>, tensor<64x256x64xf16>) -> tensor<64x8x64xf16>
  func.return %0, %1, %6 : tensor<64x256x64xf16>, tensor<64x256x64xf16>, tensor<64x8x64xf16>
}
