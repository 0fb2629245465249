// RUN: mg-opt --explain-fusion %s 2>&1 >/dev/null | filecheck %s

func.func @layer_norm_and_product(%x: tensor<16x4096xf16>, %w: tensor<4096x1024xf16>) -> tensor<16x1024xf16> {
  %n = kn.layer_norm %x over [4096] epsilon 1.0e-05 : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %y = kn.matmul %n, %w : (tensor<16x4096xf16>, tensor<4096x1024xf16>) -> tensor<16x1024xf16>
  func.return %y : tensor<16x1024xf16>
}
// CHECK:      @layer_norm_and_product: 2 kernels, {{.*}} µs; {{.*}} groups of operators tried
// CHECK-NEXT:   kernel 0: {{.*}}kn.reduction
// CHECK:        kernel 1: {{.*}}kn.matmul: {{.*}} µs
// CHECK-NEXT:     {{.*}} µs less than {{.*}} kernels
// CHECK-NEXT:   kernels 0 and 1 stay two:
// CHECK-NEXT:     along dimension 1 of %x: 'square' is not linear in a value that is known only after the loop
// CHECK-NEXT:     one kernel adds {{.*}} µs, two {{.*}} µs

func.func @groups(%x: tensor<16x256xf16>) -> tensor<16x4xf16> {
  %s = kn.square %x : tensor<16x256xf16> -> tensor<16x256xf16>
  %y = kn.reduction %s dim 1 : tensor<16x256xf16> -> tensor<16x4xf16>
  func.return %y : tensor<16x4xf16>
}
// CHECK:      @groups: 2 kernels
// CHECK:        kernels 0 and 1 stay two:
// CHECK-NEXT:     'kn.reduction' %y reduces groups of neighbours
