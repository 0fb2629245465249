// Elements inside a set of coordinates, and a constant in place of the others.
// RUN: mg-opt --split-input-file %s | mg-opt --split-input-file | filecheck %s
// RUN: mg-opt --print-op-generic --split-input-file %s | mg-opt --split-input-file | filecheck %s
// RUN: mg-opt --split-input-file --transpile -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK:     kn.mask %x where affine_set<(d0, d1) : ((((d0 * 2) + (d1 * -2)) + 9) >= 0, ((d1 + d0) + -3) == 0)> else -inf : tensor<4x8xf16> -> tensor<4x8xf16>
// A form is divided by what its coefficients share; an equality is two of them.
// CUDA:      using Form0 = Layout<Shape<Int<8>, Int<4>>, Stride<Int<-1>, Int<1>>>;
// CUDA-NEXT: using Form1 = Layout<Shape<Int<8>, Int<4>>, Stride<Int<1>, Int<1>>>;
// CUDA-NEXT: using Form2 = Layout<Shape<Int<8>, Int<4>>, Stride<Int<-1>, Int<-1>>>;
// CUDA-NEXT: kn::Mask<0xff800000u, Target, Source, Form0, Form1, Form2>::run(mugraph::overlapping(stream), y, x, {{[{][{]4LL, -3LL, 3LL[}][}]}});
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.mask %x where affine_set<(i, j) : (2 * i - 2 * j + 9 >= 0, j + i == 3)> else -inf : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}

// -----

// A form starts at the coordinates of its piece.
// CUDA:      for (int64_t i0 = 0; i0 < 4; ++i0) {
// CUDA:        kn::Mask<0x00000000u, Target, Source, Form0>::run({{.*}}, x + i0 * 16384 * 65536LL, {{[{][{]}}7LL + i0 * 16384 * 1LL{{[}][}]}});
// CUDA-NEXT: }
func.func @large(%x: tensor<65536x65536xf16>) -> tensor<65536x65536xf16> {
  %y = kn.mask %x where affine_set<(i, j) : (i - j + 7 >= 0)> else 0.0 : tensor<65536x65536xf16> -> tensor<65536x65536xf16>
  func.return %y : tensor<65536x65536xf16>
}
