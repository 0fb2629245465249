// An estimate chooses where buckets end: few rows of this program have kernels that more rows do not.
// RUN: mg-opt --choose-buckets=arch=h200 %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-opt --bucket-extents %t.mlir -o %t.static.mlir
// RUN: filecheck %s --check-prefix STATIC < %t.static.mlir
// RUN: mg-check %t.static.mlir %s | filecheck %s --check-prefix PROOF

// CHECK: func.func @mlp
// CHECK-SAME: mugraph.extents = {m = {largest = 512 : i64, buckets = [{{[0-9]+}} : i64]}}
// STATIC: func.func @mlp_m{{[0-9]+}}(
// STATIC-SAME: mugraph.bucket_of = "mlp"
// STATIC: func.func @mlp(
// PROOF: at m = 512: proved equal
func.func @mlp(%x: tensor<?x1024xf16> {mugraph.extent = ["m", ""]}, %gate: tensor<1024x4096xf16> {mugraph.constant}, %up: tensor<1024x4096xf16> {mugraph.constant})
    -> tensor<?x4096xf16> attributes {mugraph.extents = {m = {largest = 512, most_buckets = 2}}} {
  %a = kn.matmul %x, %gate : (tensor<?x1024xf16>, tensor<1024x4096xf16>) -> tensor<?x4096xf16>
  %b = kn.matmul %x, %up : (tensor<?x1024xf16>, tensor<1024x4096xf16>) -> tensor<?x4096xf16>
  %s = kn.silu %a : tensor<?x4096xf16> -> tensor<?x4096xf16>
  %o = kn.mul %s, %b : (tensor<?x4096xf16>, tensor<?x4096xf16>) -> tensor<?x4096xf16>
  func.return %o : tensor<?x4096xf16>
}
