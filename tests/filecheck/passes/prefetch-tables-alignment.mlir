// A table of which 4 bytes are promised at its beginning is not asked for: requests are of whole 16 bytes.

// RUN: mg-opt --fuse-kernels --transpile=arch=sm_90a -t cuda %s 2>/dev/null | filecheck %s

// CHECK-NOT: tb::prefetch
// CHECK:     tb::grid_wait
// CHECK-NOT: tb::prefetch
func.func @few_bytes(%new: tensor<8x1x64xf16>, %table: tensor<8x96x64xf16> {mugraph.alignment = 4 : i64}, %newv: tensor<8x1x64xf16>, %tv: tensor<8x96x64xf16>, %at: tensor<1xi64>, %q: tensor<8x1x64xf16>) -> (tensor<8x96x64xf16> {mugraph.alignment = 4 : i64}, tensor<8x96x64xf16>, tensor<8x1x64xf16>) {
  %k = kn.scatter %new into %table rows %at dim 1 {kn.overlaps} : (tensor<8x1x64xf16>, tensor<8x96x64xf16>, tensor<1xi64>) -> tensor<8x96x64xf16>
  %v = kn.scatter %newv into %tv rows %at dim 1 {kn.overlaps} : (tensor<8x1x64xf16>, tensor<8x96x64xf16>, tensor<1xi64>) -> tensor<8x96x64xf16>
  %kt = kn.transpose %k dims [0, 2, 1] : tensor<8x96x64xf16> -> tensor<8x64x96xf16>
  %s = kn.matmul %q, %kt : (tensor<8x1x64xf16>, tensor<8x64x96xf16>) -> tensor<8x1x96xf16>
  %p = kn.softmax %s dim 2 : tensor<8x1x96xf16> -> tensor<8x1x96xf16>
  %y = kn.matmul %p, %v : (tensor<8x1x96xf16>, tensor<8x96x64xf16>) -> tensor<8x1x64xf16>
  func.return %k, %v, %y : tensor<8x96x64xf16>, tensor<8x96x64xf16>, tensor<8x1x64xf16>
}
