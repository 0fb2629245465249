// What kn cannot say stays, and a note names the operator and operand, and what to write.
// RUN: mg-opt --convert-linalg-to-kn --split-input-file %s 2>&1 >%t | filecheck %s
// RUN: filecheck %s --check-prefix STAYS < %t

#same = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK: --convert-linalg-to-kn: note: 'linalg.generic' %m stays, because its body adds nothing to its output; sums and maxima along dimensions are all that kn has
// STAYS-LABEL: func.func @product
// STAYS: linalg.generic
func.func @product(%x: tensor<4x8xf16>) -> tensor<4xf16> {
  %low = arith.constant 1.0 : f16
  %e = tensor.empty() : tensor<4xf16>
  %f = linalg.fill ins(%low : f16) outs(%e : tensor<4xf16>) -> tensor<4xf16>
  %m = linalg.generic {indexing_maps = [#same, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf16>) outs(%f : tensor<4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %r = arith.mulf %in, %out : f16
    linalg.yield %r : f16
  } -> tensor<4xf16>
  func.return %m : tensor<4xf16>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// torch's maximum along a dimension, with its place.
// CHECK: note: 'linalg.generic' %m stays, because %i has elements of i64; those of kn's operators are f16, bf16, f32, f8E4M3FN, f8E5M2
// STAYS-LABEL: func.func @maximum_and_place
// STAYS: -> (tensor<4xf32>, tensor<4xi64>)
func.func @maximum_and_place(%x: tensor<4x8xf32>, %a: tensor<4xf32>, %b: tensor<4xi64>) -> tensor<4xf32> {
  %m, %i = linalg.generic {indexing_maps = [#same, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%a, %b : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%in: f32, %out: f32, %place: i64):
    %n = linalg.index 1 : index
    %j = arith.index_cast %n : index to i64
    %c = arith.cmpf ogt, %in, %out : f32
    %r = arith.select %c, %in, %out : f32
    %k = arith.select %c, %j, %place : i64
    linalg.yield %r, %k : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  func.return %m : tensor<4xf32>
}

// -----

// CHECK: note: 'linalg.conv_2d_nchw_fchw' %r stays, because %x is indexed by {{.*}}, and kn has no windows; write a convolution as a product of matrices
// STAYS-LABEL: func.func @convolution
func.func @convolution(%x: tensor<1x4x8x8xf16>, %w: tensor<8x4x3x3xf16>, %o: tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32> {
  %r = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<1> : vector<2xi64>} ins(%x, %w : tensor<1x4x8x8xf16>, tensor<8x4x3x3xf16>) outs(%o : tensor<1x8x6x6xf32>) -> tensor<1x8x6x6xf32>
  func.return %r : tensor<1x8x6x6xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// CHECK: note: 'linalg.generic' %t stays, because 'math.sin' in its body has no counterpart in kn; write it as a tensor expression ('tb.custom'), or compute it before
// STAYS-LABEL: func.func @sine
func.func @sine(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %e = tensor.empty() : tensor<4x8xf16>
  %t = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %r = math.sin %a : f16
    linalg.yield %r : f16
  } -> tensor<4x8xf16>
  func.return %t : tensor<4x8xf16>
}

// -----

// CHECK: note: 'linalg.matmul' %m stays, because operand %w is a tensor of constants, which kn lacks; make it an argument of the function
// STAYS-LABEL: func.func @constants
func.func @constants(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %z = arith.constant dense<0.0> : tensor<4x2xf32>
  %m = linalg.matmul ins(%x, %w : tensor<4x2xf32>, tensor<2x2xf32>) outs(%z : tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return %m : tensor<4x2xf32>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// What is repeated for a subtraction is not repeated in kn; what the function returns would have to be.
// CHECK: note: 'linalg.generic' %w stays, because it repeats 4x1 elements to 4x8, which in kn element-wise operators and products do; use its operand there
// STAYS-LABEL: func.func @repeated
// STAYS: kn.sub %x, %{{.*}} : (tensor<4x8xf16>, tensor<4x1xf16, #cute.layout<(4,1):(1,4)>>) -> tensor<4x8xf16>
// STAYS-LABEL: func.func @returned
// STAYS: linalg.generic
func.func @repeated(%x: tensor<4x8xf16>, %m: tensor<4xf16>) -> tensor<4x8xf16> {
  %e = tensor.empty() : tensor<4x8xf16>
  %w = linalg.generic {indexing_maps = [#row, #same], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<4x8xf16>
  %s = linalg.sub ins(%x, %w : tensor<4x8xf16>, tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %s : tensor<4x8xf16>
}
func.func @returned(%m: tensor<4xf16>) -> tensor<4x8xf16> {
  %e = tensor.empty() : tensor<4x8xf16>
  %w = linalg.generic {indexing_maps = [#row, #same], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<4xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%in: f16, %out: f16):
    linalg.yield %in : f16
  } -> tensor<4x8xf16>
  func.return %w : tensor<4x8xf16>
}

// -----

#same = affine_map<(d0, d1) -> (d0, d1)>

// Rounding to 8 bits is what a quantised graph is about.
// CHECK: note: 'linalg.generic' %t stays, because its body goes on with what it has rounded to f8E4M3FN; write an operator of its own for the cast
// CHECK: note: 'tensor.pad' %p stays, because 'tensor.pad' has no counterpart in kn; compute it in another function, or write it with the operators that have one
// STAYS-LABEL: func.func @quantised
func.func @quantised(%x: tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<5x9xf16>) {
  %z = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<4x8xf16>
  %t = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf16>) outs(%e : tensor<4x8xf16>) {
  ^bb0(%a: f16, %o: f16):
    %q = arith.truncf %a : f16 to f8E4M3FN
    %r = arith.extf %q : f8E4M3FN to f16
    linalg.yield %r : f16
  } -> tensor<4x8xf16>
  %p = tensor.pad %x low[0, 0] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f16
  } : tensor<4x8xf16> to tensor<5x9xf16>
  func.return %t, %p : tensor<4x8xf16>, tensor<5x9xf16>
}
