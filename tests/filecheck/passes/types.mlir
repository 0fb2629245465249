// RUN: mg-opt --fuse-threadblock %s | filecheck %s --check-prefix FUSED
// RUN: mg-opt --plan="tiles=written loads=cp_async online-softmax=false" %unpromoted %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-opt -t 'cuda{function=bytes}' %t.mlir | filecheck %s --check-prefix CUDA

// i8 is added up in i32, in registers; a cast to or from integers stays an operator.
// FUSED-LABEL: @bytes
// FUSED: tb.matmul %a, %b then [accum] : {{.*}} -> !tb.stensor<16x16xi32>
// FUSED: tb.cast {{.*}} then [mul_scalar(0.5)] : !tb.stensor<16x16xi32> -> !tb.stensor<16x16xf32>
// FUSED: tb.cast {{.*}} : !tb.stensor<16x16xf32> -> !tb.stensor<16x16xi8>
// CHECK-LABEL: @bytes_custom0
// CHECK: sched.empty : !sched.tile<16x16xi32, #cute.tiled_mma<SM80_16x8x32_S32S8S8S32_TN, (1,2,1)>>
// CHECK: sched.mma %a, %b {{.*}} ldmatrix [true, true]
// CUDA: int32_t m[tb::MmaFragment<1, 2, 16, 16, atoms::SM80_16x8x32_S32S8S8S32_TN>::kValues];
// CUDA: tb::Matmul<1, 2, A, B, true, true, atoms::SM80_16x8x32_S32S8S8S32_TN>::mma(m,
// CUDA: tb::Elementwise<ops::Chain<>, ops::Chain<>, 64, {{.*}}>::store(
func.func @bytes(%x: tensor<16x64xi8>, %w: tensor<64x16xi8, #cute.layout<(64,16):(1,64)>>) -> tensor<16x16xi8> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [64, 1, 1] forloop 2 {
  ^bb0(%d: tensor<16x64xi8>, %e: tensor<64x16xi8, #cute.layout<(64,16):(1,64)>>):
    %a = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<16x64xi8> -> !tb.stensor<16x32xi8>
    %b = tb.input %e imap [-1, -1, -1] fordim 0 : tensor<64x16xi8, #cute.layout<(64,16):(1,64)>> -> !tb.stensor<32x16xi8>
    %p = tb.matmul %a, %b : (!tb.stensor<16x32xi8>, !tb.stensor<32x16xi8>) -> !tb.stensor<16x16xi32>
    %m = tb.forloop_accum none %p : !tb.stensor<16x16xi32> -> !tb.stensor<16x16xi32>
    %f = tb.cast %m : !tb.stensor<16x16xi32> -> !tb.stensor<16x16xf32>
    %s = tb.mul_scalar %f by 0.5 : !tb.stensor<16x16xf32> -> !tb.stensor<16x16xf32>
    %q = tb.cast %s : !tb.stensor<16x16xf32> -> !tb.stensor<16x16xi8>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<16x16xi8> -> tensor<16x16xi8>
  } : (tensor<16x64xi8>, tensor<64x16xi8, #cute.layout<(64,16):(1,64)>>) -> tensor<16x16xi8>
  func.return %o : tensor<16x16xi8>
}

// A cast between floating-point types is the type of a fused result; what has 8 bits is rounded to them.
// FUSED-LABEL: @casts
// FUSED: tb.exp %a then [square] : !tb.stensor<16x16xbf16> -> !tb.stensor<16x16xf8E5M2>
// FUSED-NEXT: tb.cast {{.*}} then [accum] : !tb.stensor<16x16xf8E5M2> -> !tb.stensor<16x16xf32>
func.func @casts(%x: tensor<16x16xbf16>) -> tensor<16x16xf32> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<16x16xbf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<16x16xbf16> -> !tb.stensor<16x16xbf16>
    %e = tb.exp %a : !tb.stensor<16x16xbf16> -> !tb.stensor<16x16xbf16>
    %s = tb.square %e : !tb.stensor<16x16xbf16> -> !tb.stensor<16x16xbf16>
    %n = tb.cast %s : !tb.stensor<16x16xbf16> -> !tb.stensor<16x16xf8E5M2>
    %w = tb.cast %n : !tb.stensor<16x16xf8E5M2> -> !tb.stensor<16x16xf32>
    %r = tb.forloop_accum none %w : !tb.stensor<16x16xf32> -> !tb.stensor<16x16xf32>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x16xf32> -> tensor<16x16xf32>
  } : (tensor<16x16xbf16>) -> tensor<16x16xf32>
  func.return %o : tensor<16x16xf32>
}

// f32 is multiplied as TF32, in plain fp32 where asked for, and by single threads where there is no warp.
// CHECK-LABEL: @products_custom0
// CHECK: SM80_16x8x8_F32TF32TF32F32_TN
// CHECK: UniversalFMA_F32
func.func @products(%x: tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>) {
  %o:2 = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<16x16xf32>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<16x16xf32> -> !tb.stensor<16x16xf32>
    %t = tb.matmul %a, %a then [accum] : (!tb.stensor<16x16xf32>, !tb.stensor<16x16xf32>) -> !tb.stensor<16x16xf32>
    %p = tb.matmul %a, %a precision ieee then [accum] : (!tb.stensor<16x16xf32>, !tb.stensor<16x16xf32>) -> !tb.stensor<16x16xf32>
    tb.output %t omap [-1, -1, -1] : !tb.stensor<16x16xf32> -> tensor<16x16xf32>
    tb.output %p omap [-1, -1, -1] : !tb.stensor<16x16xf32> -> tensor<16x16xf32>
  } : (tensor<16x16xf32>) -> (tensor<16x16xf32>, tensor<16x16xf32>)
  func.return %o#0, %o#1 : tensor<16x16xf32>, tensor<16x16xf32>
}

// CHECK-LABEL: @few_threads_custom0
// CHECK: !sched.tile<8x8xf32, #cute.tiled_mma<UniversalFMA_F32, (4,4,1)>>
func.func @few_threads(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [16, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %a = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %m = tb.matmul %a, %a then [accum] : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return %o : tensor<8x8xf16>
}
