// RUN: mg-opt --fuse-kernels %s | filecheck %s

// Of a dimension a view splits a part alone: its rows are no part of the whole's rows.
// CHECK-LABEL: func.func @split
// CHECK-NOT: tb.split %{{.*}} dim 0 : (!tb.stensor<64x3xf16>) -> (!tb.stensor<16x3xf16>
// CHECK: return
func.func @split(%a: tensor<64x3xf16>, %b: tensor<16x2xf16>) -> tensor<16x2xf16> {
  %e = kn.square %a : tensor<64x3xf16> -> tensor<64x3xf16>
  %p = kn.slice %e from [0, 0] : tensor<64x3xf16> -> tensor<32x1xf16>
  %r = kn.reshape %p : tensor<32x1xf16> -> tensor<16x2xf16>
  %o = kn.add %r, %b : (tensor<16x2xf16>, tensor<16x2xf16>) -> tensor<16x2xf16>
  func.return %o : tensor<16x2xf16>
}
