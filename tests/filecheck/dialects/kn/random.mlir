// Random numbers of a seed and an offset: a function of an element's number in row-major order.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-check %s %s | filecheck %s --check-prefix SAME

// CHECK: kn.random bits seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<9xi32>
// CHECK: kn.random uniform seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<4x60xf32>
// CHECK: kn.random normal seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<4x60xf32>
// CUDA:      using Target = Layout<Shape<Int<60>, Int<4>>, Stride<Int<1>, Int<60>>>;
// CUDA-NEXT: using Places = Layout<Shape<Int<60>, Int<4>>, Stride<Int<1>, Int<60>>>;
// CUDA-NEXT: kn::Random<kn::RandomUniform, Target, Places>::run(mugraph::overlapping(stream), u, s, o, 0LL);
// CUDA:      kn::Random<kn::RandomNormal, Target, Places>::run(mugraph::overlapping(stream), n, s, o, 0LL);
// SAME:      proved equal
func.func @f(%s: tensor<1xi64>, %o: tensor<1x1xi64>) -> (tensor<9xi32>, tensor<4x60xf32>, tensor<4x60xf32>) {
  %b = kn.random bits seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<9xi32>
  %u = kn.random uniform seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<4x60xf32>
  %n = kn.random normal seed %s offset %o : (tensor<1xi64>, tensor<1x1xi64>) -> tensor<4x60xf32>
  func.return %b, %u, %n : tensor<9xi32>, tensor<4x60xf32>, tensor<4x60xf32>
}
