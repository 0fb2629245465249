// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// CHECK-LABEL: func.func @memory
// CHECK: tb.input %dx imap [0, 1, -1] fordim 1 : tensor<8x64xf16> -> !tb.stensor<4x8xf16>
// CHECK: tb.input %dx imap [-1, -1, -1] {note = 1 : i64} : tensor<8x64xf16> -> !tb.stensor<8x64xf16, S<1,3,3> o (8,64):(64,1)>
// CHECK: tb.output %a omap [0, 1, -1] : !tb.stensor<4x8xf32> -> tensor<8x16xf16>
// GENERIC: "tb.input"(%dx) <{imap = array<i64: 0, 1, -1>, fordim = 1 : i64}>
// GENERIC: "tb.output"(%a) <{omap = array<i64: 0, 1, -1>, dtensor_type = tensor<8x16xf16>}>
func.func @memory(%x: tensor<8x64xf16>) {
  %o = kn.customized %x grid [2, 2, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<8x64xf16>):
    %s = tb.input %dx imap [0, 1, -1] fordim 1 : tensor<8x64xf16> -> !tb.stensor<4x8xf16>
    %k = tb.input %dx imap [-1, -1, -1] {note = 1 : i64} : tensor<8x64xf16> -> !tb.stensor<8x64xf16, S<1,3,3> o (8,64):(64,1)>
    %a = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
    tb.output %a omap [0, 1, -1] : !tb.stensor<4x8xf32> -> tensor<8x16xf16>
  } : (tensor<8x64xf16>) -> tensor<8x16xf16>
  func.return
}

// CHECK-LABEL: func.func @compute
// CHECK: tb.matmul %s, %s then [exp, mul_scalar(0.5), accum] : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
// CHECK: tb.matmul %s, %s : (!tb
// CHECK: tb.exp %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf32>
// CHECK: tb.silu %s then [square, tanh] :
// CHECK: tb.square %s
// CHECK: tb.sqrt %s
// CHECK: tb.mul_scalar %s by 2.500000e-01 then [accum] :
// CHECK: tb.add %s, %row : (!tb.stensor<8x8xf16>, !tb.stensor<1x8xf16>) -> !tb.stensor<8x8xf16>
// CHECK: tb.sub %row, %s then [exp]
// CHECK: tb.mul %s, %s
// CHECK: tb.div %s, %s
// CHECK: tb.rms_norm %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
// CHECK: tb.reduction %s dim 0 : !tb.stensor<8x8xf16> -> !tb.stensor<1x8xf16>
// CHECK: tb.reduction_to_dimx_strided %s dim 1 then [sqrt] : !tb.stensor<8x8xf16> -> !tb.stensor<8x2xf16>
// CHECK: tb.reduction_to_dimx_contiguous %s dim 1
// GENERIC: "tb.matmul"(%s, %s) <{epilogue = #tb.epilogue<[exp, mul_scalar(0.5), accum]>}>
// GENERIC: "tb.mul_scalar"(%s) <{scalar = 2.500000e-01 : f32, epilogue = #tb.epilogue<[accum]>}>
// GENERIC: "tb.reduction"(%s) <{dim = 0 : i64}>
func.func @compute(%x: tensor<8x8xf16>, %y: tensor<1x8xf16>) {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x8xf16>, %dy: tensor<1x8xf16>):
    %s = tb.input %dx imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %row = tb.input %dy imap [-1, -1, -1] : tensor<1x8xf16> -> !tb.stensor<1x8xf16>
    %0 = tb.matmul %s, %s then [exp, mul_scalar(0.5), accum] : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %1 = tb.matmul %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %2 = tb.exp %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf32>
    %3 = tb.silu %s then [square, tanh] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %4 = tb.square %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %5 = tb.sqrt %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %6 = tb.mul_scalar %s by 0.25 then [accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %7 = tb.add %s, %row : (!tb.stensor<8x8xf16>, !tb.stensor<1x8xf16>) -> !tb.stensor<8x8xf16>
    %8 = tb.sub %row, %s then [exp] : (!tb.stensor<1x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %9 = tb.mul %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %10 = tb.div %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    %11 = tb.rms_norm %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %12 = tb.reduction %s dim 0 : !tb.stensor<8x8xf16> -> !tb.stensor<1x8xf16>
    %13 = tb.reduction_to_dimx_strided %s dim 1 then [sqrt] : !tb.stensor<8x8xf16> -> !tb.stensor<8x2xf16>
    %14 = tb.reduction_to_dimx_contiguous %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x2xf16>
    tb.output %0 omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>, tensor<1x8xf16>) -> tensor<8x8xf16>
  func.return
}

// CHECK-LABEL: func.func @rearrange
// CHECK: %p, %q = tb.split %s dim 1 : (!tb.stensor<8x8xf16>) -> (!tb.stensor<8x3xf16>, !tb.stensor<8x5xf16>)
// CHECK: %c = tb.concat %q, %p dim 1 : (!tb.stensor<8x5xf16>, !tb.stensor<8x3xf16>) -> !tb.stensor<8x8xf16>
// CHECK: tb.concat_then_matmul %s, %c, %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
// GENERIC: "tb.split"(%s) <{dim = 1 : i64}>
func.func @rearrange(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x8xf16>):
    %s = tb.input %dx imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %p, %q = tb.split %s dim 1 : (!tb.stensor<8x8xf16>) -> (!tb.stensor<8x3xf16>, !tb.stensor<8x5xf16>)
    %c = tb.concat %q, %p dim 1 : (!tb.stensor<8x5xf16>, !tb.stensor<8x3xf16>) -> !tb.stensor<8x8xf16>
    %m = tb.concat_then_matmul %s, %c, %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// CHECK-LABEL: func.func @running
// CHECK: %m, %d = tb.reduction_max %s dim 1 : !tb.stensor<8x8xf16> -> (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>)
// CHECK: tb.rms_norm %s weight %row epsilon 2.500000e-01 : !tb.stensor<8x8xf16>, !tb.stensor<1x8xf16> -> !tb.stensor<8x8xf16>
// CHECK: tb.forloop_accum_rescale none %s by %d : (!tb.stensor<8x8xf16>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x8xf16>
// CHECK: tb.forloop_accum_rescale sum %n by %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x1xf16>
// CHECK: tb.forloop_accum max %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
// CHECK: tb.forloop_accum mean %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
// CHECK: tb.max %a, %f
// GENERIC: "tb.reduction_max"(%s) <{dim = 1 : i64}>
// GENERIC: "tb.rms_norm"(%s, %row) <{epsilon = 2.500000e-01 : f32}>
// GENERIC: "tb.forloop_accum_rescale"(%s, %d) <{kind = #tb<rescaled none>}>
func.func @running(%x: tensor<8x8xf16>, %y: tensor<1x8xf16>) {
  %o = kn.customized %x, %y grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x8xf16>, %dy: tensor<1x8xf16>):
    %s = tb.input %dx imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %row = tb.input %dy imap [-1, -1, -1] : tensor<1x8xf16> -> !tb.stensor<1x8xf16>
    %m, %d = tb.reduction_max %s dim 1 : !tb.stensor<8x8xf16> -> (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>)
    %n = tb.rms_norm %s weight %row epsilon 0.25 : !tb.stensor<8x8xf16>, !tb.stensor<1x8xf16> -> !tb.stensor<8x8xf16>
    %a = tb.forloop_accum_rescale none %s by %d : (!tb.stensor<8x8xf16>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x8xf16>
    %b = tb.forloop_accum_rescale sum %n by %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x1xf16>
    %f = tb.forloop_accum max %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.forloop_accum mean %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    %g = tb.max %a, %f : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %g omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>, tensor<1x8xf16>) -> tensor<8x8xf16>
  func.return
}

// CHECK-LABEL: func.func @accumulators
// CHECK: tb.forloop_accum none %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x4xf16>
// CHECK: tb.forloop_accum sum %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x1xf32>
// CHECK: tb.forloop_accum rms %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x1xf16>
// CHECK: tb.forloop_accum_sum_to_dimx_strided %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x2xf16>
// CHECK: tb.forloop_accum_sum_to_dimx_contiguous %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x2xf16>
// GENERIC: "tb.forloop_accum"(%s) <{kind = #tb<accumulator sum>}>
func.func @accumulators(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<8x8xf16>):
    %s = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x8xf16> -> !tb.stensor<8x4xf16>
    %0 = tb.forloop_accum none %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x4xf16>
    %1 = tb.forloop_accum sum %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x1xf32>
    %2 = tb.forloop_accum rms %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x1xf16>
    %3 = tb.forloop_accum_sum_to_dimx_strided %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x2xf16>
    %4 = tb.forloop_accum_sum_to_dimx_contiguous %s : !tb.stensor<8x4xf16> -> !tb.stensor<8x2xf16>
    tb.output %3 omap [-1, -1, -1] : !tb.stensor<8x2xf16> -> tensor<8x2xf16>
  } : (tensor<8x8xf16>) -> tensor<8x2xf16>
  func.return
}
