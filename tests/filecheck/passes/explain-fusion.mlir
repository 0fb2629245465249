// RUN: mg-opt --explain-fusion %s 2>&1 >/dev/null | filecheck %s
// RUN: mg-opt --explain-fusion %examples/rmsnorm_linear.mlir 2>&1 >/dev/null | filecheck %s --check-prefix WRITTEN

func.func @layer_norm_and_product(%x: tensor<16x4096xf16>, %w: tensor<4096x1024xf16>) -> tensor<16x1024xf16> {
  %n = kn.layer_norm %x over [4096] epsilon 1.0e-05 : (tensor<16x4096xf16>) -> tensor<16x4096xf16>
  %y = kn.matmul %n, %w : (tensor<16x4096xf16>, tensor<4096x1024xf16>) -> tensor<16x1024xf16>
  func.return %y : tensor<16x1024xf16>
}
// CHECK:      @layer_norm_and_product: 2 kernels, {{.*}} µs; {{.*}} groups of operators tried
// CHECK-NEXT:   kernel 0: {{.*}}kn.reduction
// CHECK:        kernel 1: {{.*}}kn.matmul: {{.*}} µs
// CHECK-NEXT:   kernels 0 and 1 stay two:
// CHECK-NEXT:     along dimension 1 of %x: two sums are multiplied that both have a summand from after the loop; multiplied out, their powers would cancel, with large rounding errors
// CHECK-NEXT:     one kernel adds {{.*}} µs, two {{.*}} µs

// WRITTEN: @rmsnorm_linear: nothing to fuse; kernels that are written, or that --fuse-kernels has made, stay as they are

func.func @groups(%x: tensor<16x256xf16>) -> tensor<16x4xf16> {
  %s = kn.square %x : tensor<16x256xf16> -> tensor<16x256xf16>
  %y = kn.reduction %s dim 1 : tensor<16x256xf16> -> tensor<16x4xf16>
  func.return %y : tensor<16x4xf16>
}
// CHECK:      @groups: 2 kernels
// CHECK:        kernels 0 and 1 stay two:
// CHECK-NEXT:     'kn.reduction' %y reduces to more than one element a row

func.func @variance(%x: tensor<512x262144xf16>) -> tensor<512x1xf32> {
  %s = kn.reduction %x dim 1 : tensor<512x262144xf16> -> tensor<512x1xf32>
  %m = kn.mul_scalar %s by 3.814697265625e-06 : tensor<512x1xf32> -> tensor<512x1xf32>
  %d = kn.sub %x, %m : (tensor<512x262144xf16>, tensor<512x1xf32>) -> tensor<512x262144xf32>
  %q = kn.mul %d, %d : (tensor<512x262144xf32>, tensor<512x262144xf32>) -> tensor<512x262144xf32>
  %v = kn.reduction %q dim 1 : tensor<512x262144xf32> -> tensor<512x1xf32>
  func.return %v : tensor<512x1xf32>
}
// CHECK:      @variance: 2 kernels
// CHECK:        kernels 0 and 1 stay two:
// CHECK:          along dimension 1 of %x: two sums are multiplied that both have a summand from after the loop; multiplied out, their powers would cancel, with large rounding errors

func.func @looked_up(%x: tensor<64x32xf16>, %rows: tensor<16xi32>) -> tensor<16x32xf16> {
  %e = kn.exp %x : tensor<64x32xf16> -> tensor<64x32xf16>
  %g = kn.gather %e rows %rows : (tensor<64x32xf16>, tensor<16xi32>) -> tensor<16x32xf16>
  func.return %g : tensor<16x32xf16>
}
// CHECK:      @looked_up: 2 kernels
// CHECK:        kernels 0 and 1 stay two:
// CHECK-NEXT:     'kn.gather' %g cannot share a kernel with the operators beside it

func.func @bounded_maximum(%q: tensor<8x512x64xf16>, %k: tensor<8x64x512xf16>, %v: tensor<8x512x64xf16>, %sink: tensor<8x1x1xf16>) -> tensor<8x512x64xf16> {
  %s = kn.matmul %q, %k : (tensor<8x512x64xf16>, tensor<8x64x512xf16>) -> tensor<8x512x512xf16>
  %largest = kn.reduction %s combine max dim 2 : tensor<8x512x512xf16> -> tensor<8x512x1xf16>
  %m = kn.min %largest, %sink : (tensor<8x512x1xf16>, tensor<8x1x1xf16>) -> tensor<8x512x1xf16>
  %d = kn.sub %s, %m : (tensor<8x512x512xf16>, tensor<8x512x1xf16>) -> tensor<8x512x512xf16>
  %e = kn.exp %d : tensor<8x512x512xf16> -> tensor<8x512x512xf16>
  %sum = kn.reduction %e dim 2 : tensor<8x512x512xf16> -> tensor<8x512x1xf16>
  %p = kn.div %e, %sum : (tensor<8x512x512xf16>, tensor<8x512x1xf16>) -> tensor<8x512x512xf16>
  %y = kn.matmul %p, %v : (tensor<8x512x512xf16>, tensor<8x512x64xf16>) -> tensor<8x512x64xf16>
  func.return %y : tensor<8x512x64xf16>
}
// CHECK:      @bounded_maximum: 2 kernels
// CHECK:        kernels 0 and 1 stay two:
// CHECK:          'exp' takes a value that exists only after the loop, and is not linear in it; 'min' has no rule for a largest element
