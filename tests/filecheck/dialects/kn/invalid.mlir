// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s
// The first line of a message names the operator, the operand or dimension, and what was expected.

// CHECK: 'kn.exp' %y: the result has 4x5, expected 4x4
func.func @result(%x: tensor<4x4xf16>) {
  %y = kn.exp %x : tensor<4x4xf16> -> tensor<4x5xf16>
  func.return
}

// -----

// CHECK: tensor<9223372036854775808x8xf16> has more than 2^60 elements; use smaller extents
func.func @extent_of_64_bits(%x: tensor<9223372036854775808x8xf16>) {
  %y = kn.exp %x : tensor<9223372036854775808x8xf16> -> tensor<9223372036854775808x8xf16>
  func.return
}

// -----

// CHECK: !tb.stensor<100000000000000000000x8xf16> has more than 2^60 elements; use smaller extents
func.func @extent_of_a_tile(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %e = tb.exp %s : !tb.stensor<4x8xf16> -> !tb.stensor<100000000000000000000x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: kn.customized %x grid [1, 9223372036854775808, 1]
// CHECK-NEXT: ^^^^^^^^^^^^^^^^^^^
// CHECK-NEXT: 9223372036854775808 does not fit into 64 bits
func.func @grid_of_64_bits(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 9223372036854775808, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.add' %z: operands 4x4 and 4x3 differ in dimension 1: extents must be equal or 1
func.func @broadcast(%x: tensor<4x4xf16>, %y: tensor<4x3xf16>) {
  %z = kn.add %x, %y : (tensor<4x4xf16>, tensor<4x3xf16>) -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.mul' %z: operands 4x4 and 4 have different ranks; reshape one of them
func.func @ranks(%x: tensor<4x4xf16>, %y: tensor<4xf16>) {
  %z = kn.mul %x, %y : (tensor<4x4xf16>, tensor<4xf16>) -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul' %z: operand 0 (4x4) has 4 columns but operand 1 (3x5) has 3 rows; they are summed over and must be equal
func.func @contracted(%x: tensor<4x4xf16>, %y: tensor<3x5xf16>) {
  %z = kn.matmul %x, %y : (tensor<4x4xf16>, tensor<3x5xf16>) -> tensor<4x5xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul' %z: leading extents of operands 2x4x4 and 3x4x5 must be equal
func.func @batches(%x: tensor<2x4x4xf16>, %y: tensor<3x4x5xf16>) {
  %z = kn.matmul %x, %y : (tensor<2x4x4xf16>, tensor<3x4x5xf16>) -> tensor<2x4x5xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul' %z: operands 4 and 4 must have the same rank, at least 2
func.func @vectors(%x: tensor<4xf16>) {
  %z = kn.matmul %x, %x : (tensor<4xf16>, tensor<4xf16>) -> tensor<1xf16>
  func.return
}

// -----

// CHECK: 'kn.sqrt' %y: workspace has 2 offsets for 1 results
func.func @workspace(%x: tensor<4x4xf16>) {
  %y = kn.sqrt %x workspace [0, 128] : tensor<4x4xf16> -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: a block of 2048 threads exceeds the hardware's 1024
func.func @threads(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [1024, 2, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: the block has 128 threads along z, the hardware allows 64; move threads to another axis
func.func @deep_block(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [1, 1, 128] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: grid axis y has 65536 blocks, the hardware allows 65535
func.func @blocks(%x: tensor<65536x8xf16>) {
  %o = kn.customized %x grid [1, 65536, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<65536x8xf16>):
    %s = tb.input %d imap [-1, 0, -1] : tensor<65536x8xf16> -> !tb.stensor<1x8xf16>
    tb.output %s omap [-1, 0, -1] : !tb.stensor<1x8xf16> -> tensor<65536x8xf16>
  } : (tensor<65536x8xf16>) -> tensor<65536x8xf16>
  func.return
}

// -----

// Extents are checked before the body divides by them.
// CHECK: 'kn.customized' %o: grid [0, 1, 1] must have three extents of at least 1, for x, y and z
func.func @no_blocks(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [0, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: grid [1, 1] must have three extents of at least 1, for x, y and z
func.func @two_axes(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [0, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [0, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: forloop 0 must be at least 1
func.func @no_iterations(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 0 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o: the body's arguments must have the operands' types, one each
func.func @arguments(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<8x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<8x8xf16> -> !tb.stensor<8x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<8x8xf16> -> tensor<8x8xf16>
  } : (tensor<4x8xf16>) -> tensor<8x8xf16>
  func.return
}

// -----

// CHECK: 'kn.customized' %o has 2 results but its body has 1 'tb.output'; the i-th of them is the i-th result
func.func @results(%x: tensor<4x8xf16>) {
  %o, %p = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> (tensor<4x8xf16>, tensor<4x8xf16>)
  func.return
}

// -----

// CHECK: 'kn.customized' %o: result 0 has type tensor<4x8xf32> but its 'tb.output' stores tensor<4x8xf16>
func.func @result_type(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x8xf16>) -> tensor<4x8xf32>
  func.return
}

// -----

// CHECK: 'tb.add' %m mixes %a, which exists after the loop, with %s of the loop body; accumulate the latter first
func.func @mixed(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<4x4xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    %m = tb.add %a, %s : (!tb.stensor<4x4xf16>, !tb.stensor<4x4xf16>) -> !tb.stensor<4x4xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<4x4xf16> -> tensor<4x4xf16>
  } : (tensor<4x8xf16>) -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'tb.forloop_accum' %b accumulates %a, which exists only after the loop; accumulate values of the loop body
func.func @accumulated_twice(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<4x4xf16>
    %a = tb.forloop_accum none %s : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    %b = tb.forloop_accum none %a : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<4x4xf16> -> tensor<4x4xf16>
  } : (tensor<4x8xf16>) -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'tb.output' of %e stores a value of the loop body, which differs from iteration to iteration; accumulate it first
func.func @stored_early(%x: tensor<4x8xf16>) {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%d: tensor<4x8xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<4x4xf16>
    %e = tb.exp %s : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    tb.output %e omap [-1, -1, -1] : !tb.stensor<4x4xf16> -> tensor<4x4xf16>
  } : (tensor<4x8xf16>) -> tensor<4x4xf16>
  func.return
}

// -----

func.func @computation(%x: tensor<4x4xf16>) {
  %y = kn.matmul %x, %x compute f8 : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
  func.return
}
// CHECK: kn.matmul %x, %x compute f8
// CHECK: Expected `f32`, or `f16`.

// -----

// CHECK: 'kn.matmul' %z takes operands of one element type, got %x of f16 and %y of f32; insert a 'kn.cast' to convert one of them
func.func @mixed_types(%x: tensor<4x4xf16>, %y: tensor<4x4xf32>) {
  %z = kn.matmul %x, %y : (tensor<4x4xf16>, tensor<4x4xf32>) -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul' %z: compute f16 is for tensors of f16, not f32; leave it out
func.func @narrow_sum(%x: tensor<4x4xf32>) {
  %z = kn.matmul %x, %x compute f16 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return
}

// -----

// CHECK: 'kn.clamp' %y: the bounds of 'clamp(2.0, 1.0)' are the wrong way round; the first must be the lower one
func.func @bounds(%x: tensor<4x8xf16>) {
  %y = kn.clamp %x from 2.0 to 1.0 : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.mul_scalar' %y: the constants of 'mul_scalar(inf)' must be finite numbers
func.func @infinite(%x: tensor<4x8xf16>) {
  %y = "kn.mul_scalar"(%x) <{scalar = 0x7F800000 : f32}> : (tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul' %y: compute f16 is for tensors of f16, not f32; leave it out
func.func @sums_in_f16(%x: tensor<4x4xf16>) {
  %y = kn.matmul %x, %x compute f16 : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf32>
  func.return
}

// -----

// CHECK: tensor<4x0xf16> has no elements; extents are at least 1
func.func @no_elements(%x: tensor<4x0xf16>) {
  %y = kn.softmax %x dim 1 : tensor<4x0xf16> -> tensor<4x0xf16>
  func.return
}
