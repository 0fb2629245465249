// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s
// The first line of a message names the operator, the operand or dimension, and what was expected.

// CHECK: 'tb.input' %s: dimension 1 of the tile: 8 elements in 3 tiles need 3 in each, or more where none is left empty, not 2
func.func @not_divided(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 3, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, 1, -1] : tensor<8x8xf16> -> !tb.stensor<8x2xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: dimension 1 of the tile: 8 elements in 16 tiles need 1 in each, or more where none is left empty, not 2
func.func @nested(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [2, 8, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [1, 1, -1] : tensor<8x8xf16> -> !tb.stensor<8x2xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: dimension 0 of the tile: 8 elements in 6 tiles need 2 in each, or more where none is left empty, not 4
func.func @loop_not_divided(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 3 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [0, -1, -1] fordim 0 : tensor<8x8xf16> -> !tb.stensor<4x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: imap maps grid axis z to dimension 2, but the tensor has rank 2: expected -1 (replicated) or 0 to 1
func.func @map_out_of_range(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, 2] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: imap [-1, -1] has 2 entries, expected one for each of x, y, z
func.func @short_map(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: fordim is 2, but the tensor has rank 2: expected -1 (not split by the loop) or 0 to 1
func.func @fordim(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 2 : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: dimension 1 of the tile: 8 elements in 4 tiles need 2 in each, or more where none is left empty, not 8
func.func @tile(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<8x8xf16> -> !tb.stensor<4x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s: the tile's element type f32 differs from the tensor's f16
func.func @element_type(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf32>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.output' of %s: grid axis y has 2 blocks but omap does not map it; blocks would overwrite each other: map it to a dimension
func.func @unmapped(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 2, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.output' of %s: dimension 0 of the tile: 8 elements in 2 tiles need 4 in each, or more where none is left empty, not 8
func.func @output_tile(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.output' of %s: omap maps grid axis x to dimension 7, but the tensor has rank 2: expected -1 (replicated) or 0 to 1
func.func @output_map(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [7, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.exp' %y: the result has 8x4, expected 8x8
func.func @unary(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x4xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.mul' %y: operands 8x8 and 8x2 differ in dimension 1: extents must be equal or 1
func.func @binary(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %r = tb.reduction_to_dimx_strided %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x2xf16>
    %y = tb.mul %s, %r : (!tb.stensor<8x8xf16>, !tb.stensor<8x2xf16>) -> !tb.stensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.matmul' %y: the result has 8x4, expected 8x8
func.func @matmul(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.matmul %s, %s : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x4xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.rms_norm' %y: the result has 8x1, expected 8x8
func.func @norm(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.rms_norm %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction' %y: dimension 2 does not exist in 8x8: expected 0 to 1
func.func @reduced_dim(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.reduction %s dim 2 : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction' %y: the result has 4x1; it must equal the operand's 8x8 but for dimension 1
func.func @other_dims(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.reduction %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<4x1xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction' %y: dimension 1 of the result has extent 2, expected 1; for groups use tb.reduction_to_dimx_strided or tb.reduction_to_dimx_contiguous
func.func @to_two(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.reduction %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x2xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction_to_dimx_contiguous' %y: 8 elements along dimension 1 do not fall into 3 equal groups
func.func @groups(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.reduction_to_dimx_contiguous %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x3xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.forloop_accum' %y: the result has 8x8, expected 8x1
func.func @kept(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.forloop_accum sum %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.forloop_accum_sum_to_dimx_strided' %y: the last extent of 8x8 does not fall into 3 equal groups
func.func @dimx(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.forloop_accum_sum_to_dimx_strided %s : !tb.stensor<8x8xf16> -> !tb.stensor<8x3xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.exp' %y accumulates %s, which exists only after the loop; accumulate values of the loop body
func.func @epilogue_after(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %t = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %s = tb.exp %t then [accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s then [accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'accum' must be the last step of an epilogue
func.func @accum_first(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s then [accum, sqrt] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: unknown scalar function 'cosh'; known are identity, exp, silu, gelu, sigmoid, softplus, tanh, relu, abs, square, sqrt, rsqrt, reciprocal, reciprocal_or_zero, erf, log, cos, sin, round, floor, bits, fp4, nf4, mul_scalar, add_scalar, fill, clamp, scaled_exp, power_below, add, sub, mul, div, pow, max, min, less, less_equal, scaled_exp_difference, scaled_exp_wide_difference, where, mul_add
func.func @unknown(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s then [cosh] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'add' takes two numbers; an epilogue is made of unary functions
func.func @binary_step(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s then [add] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: scalar function 'mul_scalar' takes 1 constant, got 0
func.func @no_constant(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.exp %s then [mul_scalar] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: !tb.stensor: layout (8,4):(4,1) has extents 8x4, expected 8x8: one mode a dimension
func.func @layout_shape(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16, (8,4):(4,1)>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: !tb.stensor: layout (8,8):(0,1) has stride 0 along dimension 0 of extent 8; its elements would share one address
func.func @layout_stride(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16, (8,8):(0,1)>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: !tb.stensor of {{[0-9x]+}}: every extent must be at least 1
func.func @extent(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x0xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: !tb.stensor: element type f64 is not supported; tensors have elements of f16, bf16, f32, f8E4M3FN, f8E5M2, i8, i32
func.func @doubles(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf64>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.input' %s must stand in the body of a 'kn.customized'
func.func @outside(%d: tensor<8x8xf16>) {
  %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.matmul' %y: leading extents of operands 2x8x8 and 1x8x8 must be equal
func.func @batched(%x: tensor<2x8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<2x8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<2x8x8xf16> -> !tb.stensor<2x8x8xf16>
    %t, %u = tb.split %s dim 0 : (!tb.stensor<2x8x8xf16>) -> (!tb.stensor<1x8x8xf16>, !tb.stensor<1x8x8xf16>)
    %y = tb.matmul %s, %t : (!tb.stensor<2x8x8xf16>, !tb.stensor<1x8x8xf16>) -> !tb.stensor<2x8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<2x8x8xf16> -> tensor<2x8x8xf16>
  } : (tensor<2x8x8xf16>) -> tensor<2x8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.rms_norm' %y: the weight %s has 8x8, expected 1x8: the extent that is normalised over, and 1 elsewhere
func.func @norm_weight(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.rms_norm %s weight %s : !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.rms_norm' %y: epsilon -1.0 must be a number of at least 0
func.func @norm_epsilon(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.rms_norm %s epsilon -1.0 : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction_max' %m: dimension 2 does not exist in 8x8: expected 0 to 1
func.func @maximum_dimension(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %m, %f = tb.reduction_max %s dim 2 : !tb.stensor<8x8xf16> -> (!tb.stensor<8x1xf16>, !tb.stensor<8x1xf16>)
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.reduction_max' %m: the result has 8x8, expected 8x1
func.func @maximum_shape(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %m, %f = tb.reduction_max %s dim 1 : !tb.stensor<8x8xf16> -> (!tb.stensor<8x1xf16>, !tb.stensor<8x8xf16>)
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.forloop_accum_rescale' %a: the factors have 8x8, more than the 8x1 that they rescale
func.func @rescale_factors(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %t = tb.reduction %s dim 1 : !tb.stensor<8x8xf16> -> !tb.stensor<8x1xf16>
    %a = tb.forloop_accum_rescale none %t by %s : (!tb.stensor<8x1xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.concat' %y: the parts have 16 elements along dimension 1 together, the whole tensor (%y) has 12
func.func @concat_extents(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.concat %s, %s dim 1 : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<8x12xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.split' %y moves elements as they are, but %s has f16 and %z f32
func.func @split_type(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y, %z = tb.split %s dim 0 : (!tb.stensor<8x8xf16>) -> (!tb.stensor<3x8xf16>, !tb.stensor<5x8xf32>)
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.concat_then_matmul' %y: %s times %b: operand 0 (8x8) has 8 columns but operand 1 (4x8) has 4 rows; they are summed over and must be equal
func.func @concat_then_matmul_rows(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %a, %b = tb.split %s dim 0 : (!tb.stensor<8x8xf16>) -> (!tb.stensor<4x8xf16>, !tb.stensor<4x8xf16>)
    %y = tb.concat_then_matmul %s, %s, %s, %b : (!tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<8x8xf16>, !tb.stensor<4x8xf16>) -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<8x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'tb.cast' %y would add up f16 before it is rounded to i32; use a 'tb.forloop_accum' after it
func.func @cast_adds_fractions(%x: tensor<8x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    %y = tb.cast %s then [accum] : !tb.stensor<8x8xf16> -> !tb.stensor<8x8xi32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<8x8xi32> -> tensor<8x8xi32>
  } : (tensor<8x8xf16>) -> tensor<8x8xi32>
  func.return
}

// -----

// CHECK: 'tb.mask' %y masks elements of i8, but its result has f32; insert a 'tb.cast'
func.func @mask_converts(%x: tensor<8x8xi8>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xi8>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xi8> -> !tb.stensor<8x8xi8>
    %y = tb.mask %s with 0.0 outside [] : !tb.stensor<8x8xi8> -> !tb.stensor<8x8xf32>
    tb.output %y omap [-1, -1, -1] : !tb.stensor<8x8xf32> -> tensor<8x8xf32>
  } : (tensor<8x8xi8>) -> tensor<8x8xf32>
  func.return
}
