// The first listing of seed 000: a batched product with layouts fixed in the signature.
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --match-full-lines --strict-whitespace

// CHECK:#define NUM_GPUS 1
// CHECK-NEXT:#define USE_NVSHMEM 0
// CHECK-NEXT:#include "runtime.h"
// CHECK-NEXT:using namespace cute;
// CHECK-EMPTY:
// CHECK-NEXT:{{..maybe_unused..}} static void _init() {
// CHECK-NEXT:}
// CHECK:{{..maybe_unused..}} static void _execute_mugraph(std::vector<void const *> input_tensors, std::vector<void*> output_tensors, void* buf, cudaStream_t stream) {
// CHECK-NEXT:  {
// CHECK-NEXT:    // OP type: kn.matmul
// CHECK-NEXT:    half_t *a = (half_t*)input_tensors.at(0);
// CHECK-NEXT:    half_t *b = (half_t*)input_tensors.at(1);
// CHECK-NEXT:    half_t *c = (half_t*)output_tensors.at(0);
// CHECK-NEXT:    kn::gemm<CUBLAS_COMPUTE_16F>(stream, c,a,b, 6,4,9, 16,1, 8,1, 1,8, 3, 128,128,64);
// CHECK-NEXT:  }
// CHECK-NEXT:  (void)buf;
// CHECK-NEXT:}
func.func @batched(%a: tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>, %b: tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>) -> tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>> {
  %c = kn.matmul %a, %b compute f16 : (tensor<3x6x9xf16, #cute.layout<(3,6,9):(128,16,1)>>, tensor<3x9x4xf16, #cute.layout<(3,9,4):(128,8,1)>>) -> tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>
  func.return %c : tensor<3x6x4xf16, #cute.layout<(3,6,4):(64,1,8)>>
}
