// RUN: mg-opt --online-softmax --split-input-file %s 2>%t.notes | filecheck %s
// RUN: filecheck %s --check-prefix NOTE < %t.notes

// The sum and the product of the exponentials are rescaled; their quotient stays.

// CHECK-LABEL: func.func @attention
// CHECK:      %s = tb.input
// CHECK:      %max, %fall = tb.reduction_max %s dim 1 : !tb.stensor<4x8xf16> -> (!tb.stensor<4x1xf32>, !tb.stensor<4x1xf32>)
// CHECK-NEXT: %0 = tb.sub %s, %max : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %rescale = tb.exp %fall
// CHECK-NEXT: %e = tb.exp %0 : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xf16>
// CHECK-NEXT: %p = tb.matmul %e, %v
// CHECK-NEXT: %o = tb.forloop_accum_rescale none %p by %rescale : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x8xf16>
// CHECK-NEXT: %l = tb.forloop_accum_rescale sum %e by %rescale
// CHECK-NEXT: %q = tb.div %o, %l
func.func @attention(%a: tensor<4x16xf16>, %b: tensor<16x8xf16>) -> tensor<4x8xf16> {
  %r = kn.customized %a, %b grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%da: tensor<4x16xf16>, %db: tensor<16x8xf16>):
    %s = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<4x16xf16> -> !tb.stensor<4x8xf16>
    %v = tb.input %db imap [-1, -1, -1] fordim 0 : tensor<16x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.exp %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %p = tb.matmul %e, %v : (!tb.stensor<4x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<4x8xf16>
    %o = tb.forloop_accum none %p : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<4x8xf16> -> !tb.stensor<4x1xf16>
    %q = tb.div %o, %l : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x8xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x16xf16>, tensor<16x8xf16>) -> tensor<4x8xf16>
  func.return %r : tensor<4x8xf16>
}

// -----

// The sum of the exponentials is stored, so that nothing cancels.

// NOTE: --online-softmax: note: 'tb.exp' %e of 'kn.customized' %r stays as it is: 'tb.output' of %l stores values that no sum of exponentials has divided
// CHECK-LABEL: func.func @stored_sum
// CHECK-NOT: tb.reduction_max
// CHECK: tb.forloop_accum sum %e
func.func @stored_sum(%a: tensor<4x16xf16>) -> tensor<4x1xf16> {
  %r = kn.customized %a grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%da: tensor<4x16xf16>):
    %s = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<4x16xf16> -> !tb.stensor<4x8xf16>
    %e = tb.exp %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<4x8xf16> -> !tb.stensor<4x1xf16>
    tb.output %l omap [-1, -1, -1] : !tb.stensor<4x1xf16> -> tensor<4x1xf16>
  } : (tensor<4x16xf16>) -> tensor<4x1xf16>
  func.return %r : tensor<4x1xf16>
}

// -----

// The exponentials are fp32, and a cast rounds them for the product.

// CHECK-LABEL: func.func @cast
// CHECK:      %0 = tb.sub %s, %max
// CHECK-NEXT: %rescale = tb.exp %fall
// CHECK-NEXT: %e = tb.exp %0 : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xf32>
// CHECK-NEXT: %h = tb.cast %e : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xf16>
// CHECK:      tb.forloop_accum_rescale none %p by %rescale
// CHECK:      tb.forloop_accum_rescale sum %e by %rescale
func.func @cast(%a: tensor<4x16xf16>, %b: tensor<16x8xf16>) -> tensor<4x8xf16> {
  %r = kn.customized %a, %b grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%da: tensor<4x16xf16>, %db: tensor<16x8xf16>):
    %s = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<4x16xf16> -> !tb.stensor<4x8xf16>
    %v = tb.input %db imap [-1, -1, -1] fordim 0 : tensor<16x8xf16> -> !tb.stensor<8x8xf16>
    %e = tb.exp %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
    %h = tb.cast %e : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xf16>
    %p = tb.matmul %h, %v : (!tb.stensor<4x8xf16>, !tb.stensor<8x8xf16>) -> !tb.stensor<4x8xf16>
    %o = tb.forloop_accum none %p : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<4x8xf32> -> !tb.stensor<4x1xf32>
    %q = tb.div %o, %l : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x8xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x16xf16>, tensor<16x8xf16>) -> tensor<4x8xf16>
  func.return %r : tensor<4x8xf16>
}

// -----

// What is rounded to integers is no multiple any more.

// NOTE: 'tb.exp' %e of 'kn.customized' %r stays as it is: what it multiplies each row by is no factor of the results of 'tb.cast' %i
// CHECK-LABEL: func.func @integers
// CHECK-NOT: tb.reduction_max
func.func @integers(%a: tensor<4x8xf16>) -> tensor<4x8xf32> {
  %r = kn.customized %a grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%da: tensor<4x8xf16>):
    %s = tb.input %da imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %e = tb.exp %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf32>
    %i = tb.cast %e : !tb.stensor<4x8xf32> -> !tb.stensor<4x8xi32>
    %f = tb.cast %i : !tb.stensor<4x8xi32> -> !tb.stensor<4x8xf32>
    %l = tb.reduction %f dim 1 : !tb.stensor<4x8xf32> -> !tb.stensor<4x1xf32>
    %q = tb.div %f, %l : (!tb.stensor<4x8xf32>, !tb.stensor<4x1xf32>) -> !tb.stensor<4x8xf32>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<4x8xf32> -> tensor<4x8xf32>
  } : (tensor<4x8xf16>) -> tensor<4x8xf32>
  func.return %r : tensor<4x8xf32>
}

// -----

// The last of these tiles has five columns only: a running maximum is of the elements that exist.

// CHECK-LABEL: func.func @ragged
// CHECK: tb.reduction_max %s dim 1 : !tb.stensor<4x7xf16>
// CHECK: tb.forloop_accum_rescale sum
func.func @ragged(%a: tensor<4x13xf16>) -> tensor<4x1xf16> {
  %r = kn.customized %a grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%da: tensor<4x13xf16>):
    %s = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<4x13xf16> -> !tb.stensor<4x7xf16>
    %e = tb.exp %s : !tb.stensor<4x7xf16> -> !tb.stensor<4x7xf16>
    %m = tb.mul %e, %s : (!tb.stensor<4x7xf16>, !tb.stensor<4x7xf16>) -> !tb.stensor<4x7xf16>
    %o = tb.forloop_accum sum %m : !tb.stensor<4x7xf16> -> !tb.stensor<4x1xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<4x7xf16> -> !tb.stensor<4x1xf16>
    %q = tb.div %o, %l : (!tb.stensor<4x1xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x1xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<4x1xf16> -> tensor<4x1xf16>
  } : (tensor<4x13xf16>) -> tensor<4x1xf16>
  func.return %r : tensor<4x1xf16>
}

// -----

// The third of these tiles has no column at all, and so no maximum.

// NOTE: 'tb.exp' %e of 'kn.customized' %r stays as it is: %s has no element along dimension 1 in the last block and iteration, of which a maximum could be taken; choose fewer blocks, or a smaller forloop
// CHECK-LABEL: func.func @empty
// CHECK-NOT: tb.reduction_max
func.func @empty(%a: tensor<4x4xf16>) -> tensor<4x1xf16> {
  %r = kn.customized %a grid [1, 1, 1] block [32, 1, 1] forloop 3 {
  ^bb0(%da: tensor<4x4xf16>):
    %s = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<4x4xf16> -> !tb.stensor<4x2xf16>
    %e = tb.exp %s : !tb.stensor<4x2xf16> -> !tb.stensor<4x2xf16>
    %m = tb.mul %e, %s : (!tb.stensor<4x2xf16>, !tb.stensor<4x2xf16>) -> !tb.stensor<4x2xf16>
    %o = tb.forloop_accum sum %m : !tb.stensor<4x2xf16> -> !tb.stensor<4x1xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<4x2xf16> -> !tb.stensor<4x1xf16>
    %q = tb.div %o, %l : (!tb.stensor<4x1xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x1xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<4x1xf16> -> tensor<4x1xf16>
  } : (tensor<4x4xf16>) -> tensor<4x1xf16>
  func.return %r : tensor<4x1xf16>
}
