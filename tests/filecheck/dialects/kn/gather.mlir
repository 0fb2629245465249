// Rows of a table that a tensor names.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK:     kn.gather %x rows %i : (tensor<9x64xf16>, tensor<2x5xi32>) -> tensor<2x5x64xf16>
// CUDA:      using Target = Layout<Shape<Int<64>, Int<5>, Int<2>>, Stride<Int<1>, Int<64>, Int<320>>>;
// CUDA-NEXT: using Row = Layout<Shape<Int<64>, Int<5>, Int<2>>, Stride<Int<1>, Int<0>, Int<0>>>;
// CUDA-NEXT: using Number = Layout<Shape<Int<64>, Int<5>, Int<2>>, Stride<Int<0>, Int<1>, Int<5>>>;
// CUDA-NEXT: kn::Gather<9, 64, Target, Row, Number>::run(mugraph::overlapping(stream), y, x, i);
// SAME:      proved equal
func.func @f(%x: tensor<9x64xf16>, %i: tensor<2x5xi32>) -> tensor<2x5x64xf16> {
  %y = kn.gather %x rows %i : (tensor<9x64xf16>, tensor<2x5xi32>) -> tensor<2x5x64xf16>
  func.return %y : tensor<2x5x64xf16>
}
