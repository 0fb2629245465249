// Sums of products of f16 leave cuBLAS as they are, in f32.
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s
// RUN: mg-run %s --check | filecheck %s --check-prefix RESULT

// CHECK: half_t *a
// CHECK: float *c
// CHECK: kn::gemm<CUBLAS_COMPUTE_32F>(stream, c,a,b, 16,8,32,
// RESULT: output 0, 16x8 float32: relative error
func.func @f(%a: tensor<16x32xf16>, %b: tensor<32x8xf16>) -> tensor<16x8xf32> {
  %c = kn.matmul %a, %b : (tensor<16x32xf16>, tensor<32x8xf16>) -> tensor<16x8xf32>
  func.return %c : tensor<16x8xf32>
}
