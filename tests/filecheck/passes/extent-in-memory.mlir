// Operators that share no kernel read in memory what a call says.
// RUN: mg-opt --bucket-extents --transpile %s | mg-opt | filecheck %s
// RUN: mg-opt --bucket-extents --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --bucket-extents --transpile %s | mg-run --size n=37 --check | filecheck %s --check-prefix AT37

// CHECK: func.func @largest(
// CHECK: kn.extent "n" of %n workspace [{{.*}}]
// CHECK: kn.mask
// CUDA: kn::put_number(mugraph::overlapping(stream), n_1, static_cast<int>(n));
// AT37: within
func.func @largest(%x: tensor<?x64xf16> {mugraph.extent = ["n", ""]}) -> tensor<1x64xf16> attributes {mugraph.extents = {n = {largest = 384}}} {
  %s = kn.reduction %x combine max dim 0 : tensor<?x64xf16> -> tensor<1x64xf16>
  func.return %s : tensor<1x64xf16>
}
