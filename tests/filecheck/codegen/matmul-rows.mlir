// Heads that share a matrix are rows of one product, where they lie so.
// RUN: mg-opt --transpile -t cuda %s | filecheck %s
// RUN: mg-run %s --check | filecheck %s --check-prefix RESULT

// CHECK: kn::gemm<CUBLAS_COMPUTE_32F>(stream, {{.*}}, 128,32,16, 16,1, 32,1, 32,1, 2, 2048,512,4096);
// RESULT: output 0, 2x4x32x32 float16: relative error
func.func @f(%a: tensor<2x4x32x16xf16>, %b: tensor<2x1x16x32xf16>) -> tensor<2x4x32x32xf16> {
  %w = kn.broadcast %b : tensor<2x1x16x32xf16> -> tensor<2x4x16x32xf16>
  %c = kn.matmul %a, %w : (tensor<2x4x32x16xf16>, tensor<2x4x16x32xf16>) -> tensor<2x4x32x32xf16>
  func.return %c : tensor<2x4x32x32xf16>
}
