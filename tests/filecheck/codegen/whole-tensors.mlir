// RUN: mg-opt --split-input-file --plan=tiles=written --transpile -t cuda %s | filecheck %s

// Outputs in the order in which the source lies in memory; the four elements of a sum are 3 apart.
// CHECK:      // OP type: kn.reduction
// CHECK:      using Target = Layout<Shape<Int<3>, Int<2>, Int<10>>, Stride<Int<1>, Int<8>, Int<16>>>;
// CHECK-NEXT: using Source = Layout<Shape<Int<3>, Int<2>, Int<10>>, Stride<Int<1>, Int<12>, Int<24>>>;
// CHECK-NEXT: kn::ReduceSum<uint32_t, 4, 3, Target, Source>::run(mugraph::overlapping(stream), r, x);
// The elements of a mean are the first mode, rows the second; 0x3727c5ac is 1e-5.
// CHECK:      // OP type: kn.rms_norm
// CHECK:      using Source = Layout<Shape<Shape<Int<3>, Int<8>>, Shape<Int<10>>>, Stride<Stride<Int<1>, Int<3>>, Stride<Int<24>>>>;
// CHECK-NEXT: using Weight = Layout<Shape<Shape<Int<3>, Int<8>>, Int<1>>, Stride<Stride<Int<1>, Int<3>>, Int<0>>>;
// CHECK-NEXT: kn::RmsNorm<0x3727c5acu, Target, Source, Weight>::run(mugraph::overlapping(stream), n, x, w);
// One copy a part, from where it starts.
// CHECK:      // OP type: kn.split
// CHECK:      kn::Copy<Target, Source>::run(mugraph::overlapping(stream), a, n);
// CHECK:      kn::Copy<Target, Source>::run(mugraph::overlapping(stream), b, n + 40);
// CHECK:      // OP type: kn.concat
// CHECK:      kn::Copy<Target, Source>::run(mugraph::overlapping(stream), c, b);
// CHECK:      kn::Copy<Target, Source>::run(mugraph::overlapping(stream), c + 24, a);
func.func @f(%x: tensor<10x8x3xf16>, %w: tensor<8x3xf16>) -> (tensor<10x2x3xf16>, tensor<10x8x3xf16>) {
  %r = kn.reduction %x dim 1 : tensor<10x8x3xf16> -> tensor<10x2x3xf16>
  %n = kn.rms_norm %x weight %w over [8, 3] epsilon 1.0e-5 : (tensor<10x8x3xf16>, tensor<8x3xf16>) -> tensor<10x8x3xf16>
  %a, %b = kn.split %n dim 1 : (tensor<10x8x3xf16>) -> (tensor<10x5x3xf16>, tensor<10x3x3xf16>)
  %c = kn.concat %b, %a dim 1 : (tensor<10x3x3xf16>, tensor<10x5x3xf16>) -> tensor<10x8x3xf16>
  func.return %r, %c : tensor<10x2x3xf16>, tensor<10x8x3xf16>
}

// -----

// CHECK: kn::Reduce<ops::Max, uint32_t, 8, 3, Target, Source>::run(mugraph::overlapping(stream), m, x);
func.func @largest(%x: tensor<10x8x3xf16>) -> tensor<10x1x3xf32> {
  %m = kn.reduction %x combine max dim 1 : tensor<10x8x3xf16> -> tensor<10x1x3xf32>
  func.return %m : tensor<10x1x3xf32>
}
