// RUN: mg-opt --fuse-kernels %s | filecheck %s

// Norms of queries and keys of one token have no index in common that blocks could divide.  One axis
// cuts heads of both: a block has four heads of queries and one of keys.

// CHECK:      kn.customized %{{.*}} grid [4, 1, 1]
// CHECK-DAG:  tb.input %{{.*}} imap [1, -1, -1] : tensor<1x16x64xf16{{.*}}> -> !tb.stensor<1x4x64xf16>
// CHECK-DAG:  tb.input %{{.*}} imap [1, -1, -1] : tensor<1x4x64xf16{{.*}}> -> !tb.stensor<1x1x64xf16>
// CHECK:      tb.output %{{.*}} omap [1, -1, -1] : !tb.stensor<1x4x64xf16>
// CHECK-NEXT: tb.output %{{.*}} omap [1, -1, -1] : !tb.stensor<1x1x64xf16>
// CHECK-NOT:  kn.customized
func.func @normed(
  %q: tensor<1x16x64xf16>, %k: tensor<1x4x64xf16>, %cos: tensor<1x1x64xf16>
) -> (tensor<1x16x64xf16>, tensor<1x4x64xf16>) {
  %0 = kn.rms_norm %q over [64] epsilon 1.0e-05 : (tensor<1x16x64xf16>) -> tensor<1x16x64xf16>
  %1 = kn.rms_norm %k over [64] epsilon 1.0e-05 : (tensor<1x4x64xf16>) -> tensor<1x4x64xf16>
  %2 = kn.mul %0, %cos : (tensor<1x16x64xf16>, tensor<1x1x64xf16>) -> tensor<1x16x64xf16>
  %3 = kn.mul %1, %cos : (tensor<1x4x64xf16>, tensor<1x1x64xf16>) -> tensor<1x4x64xf16>
  return %2, %3 : tensor<1x16x64xf16>, tensor<1x4x64xf16>
}
