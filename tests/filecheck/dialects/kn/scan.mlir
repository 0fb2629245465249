// Sums so far and linear recurrences, along memory and across it.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.scan %x dim 1 : (tensor<4x1000xf16>) -> tensor<4x1000xf16>
// CHECK: kn.scan %x decay %a dim 1 : (tensor<4x1000xf16>, tensor<4x1xf32>) -> tensor<4x1000xf32>
// CHECK: kn.scan %w decay %d exclusive dim 0 : (tensor<1000x64xf16>, tensor<1000x1xf16>) -> tensor<1000x64xf16>
// CUDA:      using Source = kn::Runs<Layout<Shape<Int<4>, Int<1>>, Stride<Int<1000>, Int<0>>>, 1>;
// CUDA-NEXT: kn::Scan<1000, Target, Source>::run(mugraph::overlapping(stream), y, x);
// CUDA:      using Decay = kn::Runs<Layout<Shape<Int<4>, Int<1>>, Stride<Int<1>, Int<0>>>, 0>;
// CUDA-NEXT: kn::Scan<1000, Target, Source, Decay>::run(mugraph::overlapping(stream), h, x, a);
// CUDA:      using Source = kn::Runs<Layout<Shape<Int<64>, Int<1>>, Stride<Int<1>, Int<0>>>, 64>;
// CUDA-NEXT: using Decay = kn::Runs<Layout<Shape<Int<64>, Int<1>>, Stride<Int<0>, Int<0>>>, 1>;
// CUDA-NEXT: kn::ExclusiveScan<1000, Target, Source, Decay>::run(mugraph::overlapping(stream), g, w, d);
// SAME:  proved equal
func.func @f(%x: tensor<4x1000xf16>, %a: tensor<4x1xf32>, %w: tensor<1000x64xf16>, %d: tensor<1000x1xf16>) -> (tensor<4x1000xf16>, tensor<4x1000xf32>, tensor<1000x64xf16>) {
  %y = kn.scan %x dim 1 : (tensor<4x1000xf16>) -> tensor<4x1000xf16>
  %h = kn.scan %x decay %a dim 1 : (tensor<4x1000xf16>, tensor<4x1xf32>) -> tensor<4x1000xf32>
  %g = kn.scan %w decay %d exclusive dim 0 : (tensor<1000x64xf16>, tensor<1000x1xf16>) -> tensor<1000x64xf16>
  func.return %y, %h, %g : tensor<4x1000xf16>, tensor<4x1000xf32>, tensor<1000x64xf16>
}
