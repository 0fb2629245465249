// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --decompose-program=kernels %s | filecheck %s
// RUN: mg-opt --plan=tiles=written --transpile -t cuda %s | filecheck %s --check-prefix=CUDA
// RUN: mg-run %s --check

// A library computes it as it is: it is not taken apart.
// CHECK: kn.matmul_add %x, %w, %r : (tensor<8x16xf16>, tensor<16x24xf16>, tensor<8x24xf16>) -> tensor<8x24xf16>
// CUDA: kn::gemm_add(stream, y,x,w,r, {8,24,16, 24,16,24,24, false});
func.func @f(%x: tensor<8x16xf16>, %w: tensor<16x24xf16>, %r: tensor<8x24xf16>) -> tensor<8x24xf16> {
  %y = kn.matmul_add %x, %w, %r : (tensor<8x16xf16>, tensor<16x24xf16>, tensor<8x24xf16>) -> tensor<8x24xf16>
  func.return %y : tensor<8x24xf16>
}
