// Blocks of one warp are launched several at a time: each is a warp, with shared memory of its own, and waits for no
// other one. Few of them stay blocks, and so do blocks of two warps.
// RUN: mg-opt --transpile=arch=h200 %s | filecheck %s
// RUN: mg-opt --transpile=arch=h200 -t 'cuda{function=many}' %s | filecheck %s --check-prefix CUDA

// CHECK: sched.kernel @many_custom0 {{.*}} grid [2113, 1, 1] block [32, 1, 1] packed 4 smem 128
// CHECK: sched.kernel @few_custom0 {{.*}} block [32, 1, 1] smem
// CHECK: sched.kernel @wide_custom0 {{.*}} block [64, 1, 1] smem

// CUDA:      __global__ void __launch_bounds__(128, {{[0-9]+}}) many_custom0(
// CUDA-NEXT:   extern __shared__
// CUDA-NEXT:   uint3 const blockIdx = tb::packed_block<4>();  // packed
// CUDA-NEXT:   if (blockIdx.x >= 2113) return;
// CUDA-NEXT:   char* const warp_smem = smem + threadIdx.x / 32 * 128;
// CUDA-NEXT:   int const thread = threadIdx.x % 32;
// CUDA:        __syncwarp();  // sched.barrier
// CUDA-NOT:    __syncthreads();
// CUDA:      mugraph::launch("many_custom0", many_custom0, dim3(529, 1, 1), dim3(128, 1, 1), 512,
func.func @many(%x: tensor<4226x64xf16>, %w: tensor<1x64xf16>) -> tensor<4226x64xf16> {
  %y = kn.customized %x, %w grid [2113, 1, 1] block [32, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<4226x64xf16>, %dw: tensor<1x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<4226x64xf16> -> !tb.stensor<2x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] fordim -1 : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %n = tb.rms_norm %sx : !tb.stensor<2x64xf16> -> !tb.stensor<2x64xf16>
    %q = tb.square %sw : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %m = tb.mul %n, %q : (!tb.stensor<2x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<2x64xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<2x64xf16> -> tensor<4226x64xf16>
  } : (tensor<4226x64xf16>, tensor<1x64xf16>) -> tensor<4226x64xf16>
  func.return %y : tensor<4226x64xf16>
}

func.func @few(%x: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %y = kn.customized %x grid [32, 1, 1] block [32, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<64x64xf16> -> !tb.stensor<2x64xf16>
    %n = tb.rms_norm %sx : !tb.stensor<2x64xf16> -> !tb.stensor<2x64xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<2x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %y : tensor<64x64xf16>
}

func.func @wide(%x: tensor<4224x64xf16>) -> tensor<4224x64xf16> {
  %y = kn.customized %x grid [2112, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<4224x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<4224x64xf16> -> !tb.stensor<2x64xf16>
    %n = tb.rms_norm %sx : !tb.stensor<2x64xf16> -> !tb.stensor<2x64xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<2x64xf16> -> tensor<4224x64xf16>
  } : (tensor<4224x64xf16>) -> tensor<4224x64xf16>
  func.return %y : tensor<4224x64xf16>
}
