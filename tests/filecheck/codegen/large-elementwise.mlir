// Kernels count in 32 bits: a tensor that these do not reach is done in pieces, whose starts are added in 64 bits.
// RUN: mg-opt --split-input-file --plan=tiles=written --transpile -t cuda %s | filecheck %s

// CHECK:      for (int64_t i0 = 0; i0 < 4; ++i0) {
// CHECK-NEXT:   using Target = Layout<Shape<Int<65536>, Int<16384>>, Stride<Int<1>, Int<65536>>>;
// CHECK-NEXT:   using Source0 = Layout<Shape<Int<65536>, Int<16384>>, Stride<Int<1>, Int<65536>>>;
// CHECK-NEXT:   kn::Elementwise<ops::Exp, Target, Source0>::run(mugraph::overlapping(stream), y + i0 * 16384 * 65536LL, x + i0 * 16384 * 65536LL);
// CHECK-NEXT: }
func.func @large(%x: tensor<65536x65536xf16>) -> tensor<65536x65536xf16> {
  %y = kn.exp %x : tensor<65536x65536xf16> -> tensor<65536x65536xf16>
  func.return %y : tensor<65536x65536xf16>
}

// -----

// A remainder is a launch of its own; a column that is broadcast stays where it is.
// CHECK:      for (int64_t i0 = 0; i0 < 1; ++i0) {
// CHECK:        kn::Elementwise<ops::Add, Target, Source0, Source1>::run(mugraph::overlapping(stream), z + i0 * 1500000001 * 1LL, x + i0 * 1500000001 * 1LL, y);
// CHECK:      }
// CHECK-NEXT: {
// CHECK-NEXT:   using Target = Layout<Shape<Int<1500000000>>, Stride<Int<1>>>;
// CHECK:        run(mugraph::overlapping(stream), z + 1500000001LL * 1LL, x + 1500000001LL * 1LL, y);
func.func @odd(%x: tensor<3000000001xf16>, %y: tensor<1xf16>) -> tensor<3000000001xf16> {
  %z = kn.add %x, %y : (tensor<3000000001xf16>, tensor<1xf16>) -> tensor<3000000001xf16>
  func.return %z : tensor<3000000001xf16>
}

// -----

// Few outputs, far apart elements: the steps of a sum are counted in 64 bits.
// CHECK: kn::ReduceSum<uint64_t, 65536, 131072, Target, Source>::run(mugraph::overlapping(stream), y, x);
func.func @sum(%x: tensor<65536x131072xf16>) -> tensor<1x131072xf16> {
  %y = kn.reduction %x dim 0 : tensor<65536x131072xf16> -> tensor<1x131072xf16>
  func.return %y : tensor<1x131072xf16>
}
