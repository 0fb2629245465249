// Windows that a kernel alone uses are loaded by it; else a kernel writes them.
// RUN: mg-opt --read-windows %s | filecheck %s
// RUN: mg-opt --read-windows %s | mg-check - %s | filecheck %s --check-prefix PROOF
// RUN: mg-opt --transpile="arch=sm_90a" -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-run --check %s | filecheck %s --check-prefix RIGHT

// CHECK-NOT: kn.windows
// CHECK: %o = kn.customized %x, %w
// CHECK: %sa = tb.input %da modes [array<i64: 6, 2, 1, 3, 1, 2, 2, 0, 1>, array<i64: 16, 3, 1, 3, 2, 1, 3, 1, 1>] origin [0, -1, -1, 0] imap [0, -1, -1] fordim 1 : tensor<2x5x6x16xf16> -> !tb.stensor<12x16xf16>
// CHECK: %v = kn.customized %x grid [1, 1, 1]
// CHECK: tb.input %x_1 modes [array<i64: 2, 3, 2>, array<i64: 8, 2, 1>] origin [1, 4, 0, 13]
// PROOF: proved equal
// CUDA: tb::TensorDims<tb::TensorDim<2, 480, 0>, tb::TensorDim<5, 96, -1>, tb::TensorDim<6, 16, -1>, tb::TensorDim<16, 1, 0>>
// CUDA: Copy::run_async(sa, da, tb::Starts<2>
// RIGHT: output 0, 36x24
// RIGHT: output 1, 2x8
func.func @convolution(%x: tensor<2x5x6x16xf16>, %w: tensor<144x24xf16>) -> (tensor<36x24xf16>, tensor<2x8xf16>) {
  %a = kn.windows %x modes [array<i64: 6, 2, 1, 3, 1, 2, 2, 0, 1>, array<i64: 16, 3, 1, 3, 2, 1, 3, 1, 1>] origin [0, -1, -1, 0] : tensor<2x5x6x16xf16> -> tensor<36x144xf16>
  %o = kn.customized %a, %w grid [3, 1, 1] block [128, 1, 1] forloop 9 plan <tiles = written> {
  ^bb0(%da: tensor<36x144xf16>, %db: tensor<144x24xf16>):
    %sa = tb.input %da imap [0, -1, -1] fordim 1 : tensor<36x144xf16> -> !tb.stensor<12x16xf16>
    %sb = tb.input %db imap [-1, -1, -1] fordim 0 : tensor<144x24xf16> -> !tb.stensor<16x24xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<12x16xf16>, !tb.stensor<16x24xf16>) -> !tb.stensor<12x24xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<12x24xf16> -> !tb.stensor<12x24xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<12x24xf16> -> tensor<36x24xf16>
  } : (tensor<36x144xf16>, tensor<144x24xf16>) -> tensor<36x24xf16>
  %v = kn.windows %x modes [array<i64: 2, 3, 2>, array<i64: 8, 2, 1>] origin [1, 4, 0, 13] : tensor<2x5x6x16xf16> -> tensor<2x8xf16>
  func.return %o, %v : tensor<36x24xf16>, tensor<2x8xf16>
}
