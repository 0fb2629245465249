// Rows that are put where a tensor says.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK:     kn.scatter %v into %x rows %i dim 1 : (tensor<3x2x64xf16>, tensor<3x9x64xf16>, tensor<2xi64>) -> tensor<3x9x64xf16>
// The table is copied where the result is not the table itself.
// CUDA:      if (y != x) {
// CUDA:        kn::Copy<Target, Source>::run(mugraph::overlapping(stream), y, x);
// CUDA:      using Row = Layout<Shape<Int<64>, Int<2>, Int<3>>, Stride<Int<1>, Int<0>, Int<576>>>;
// CUDA-NEXT: using Source = Layout<Shape<Int<64>, Int<2>, Int<3>>, Stride<Int<1>, Int<64>, Int<128>>>;
// CUDA-NEXT: using Number = Layout<Shape<Int<64>, Int<2>, Int<3>>, Stride<Int<0>, Int<1>, Int<0>>>;
// CUDA-NEXT: kn::Scatter<9, 64, Source, Row, Number>::run(mugraph::overlapping(stream), y, v, i);
// SAME:      proved equal
func.func @f(%v: tensor<3x2x64xf16>, %x: tensor<3x9x64xf16>, %i: tensor<2xi64>) -> tensor<3x9x64xf16> {
  %y = kn.scatter %v into %x rows %i dim 1 : (tensor<3x2x64xf16>, tensor<3x9x64xf16>, tensor<2xi64>) -> tensor<3x9x64xf16>
  func.return %y : tensor<3x9x64xf16>
}
