// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.reduction' %y: dimension 2 does not exist in 4x6: expected 0 to 1
func.func @dimension(%x: tensor<4x6xf16>) {
  %y = kn.reduction %x dim 2 : tensor<4x6xf16> -> tensor<4x1xf16>
  func.return
}

// -----

// CHECK: 'kn.reduction' %y: 6 elements along dimension 1 do not fall into 4 equal groups
func.func @groups(%x: tensor<4x6xf16>) {
  %y = kn.reduction %x dim 1 : tensor<4x6xf16> -> tensor<4x4xf16>
  func.return
}

// -----

// CHECK: 'kn.reduction' %y: the result has 3x2, expected 4x2
func.func @result(%x: tensor<4x6xf16>) {
  %y = kn.reduction %x dim 1 : tensor<4x6xf16> -> tensor<3x2xf16>
  func.return
}

// -----

// CHECK: 'kn.arg_max' %y: places are of i32 or i64, but the result has elements of f32
func.func @places(%x: tensor<4x6xf16>) {
  %y = kn.arg_max %x dim 1 : tensor<4x6xf16> -> tensor<4x1xf32>
  func.return
}

// -----

// CHECK: 'kn.arg_max' %y computes on floating-point numbers, but %x has elements of i32; insert a 'kn.cast' to f32 first
func.func @ordered(%x: tensor<4x6xi32>) {
  %y = kn.arg_max %x dim 1 : tensor<4x6xi32> -> tensor<4x1xi32>
  func.return
}

// -----

// CHECK: 'kn.arg_max' %y: dimension 2 does not exist in 4x6: expected 0 to 1
func.func @nowhere(%x: tensor<4x6xf16>) {
  %y = kn.arg_max %x dim 2 : tensor<4x6xf16> -> tensor<4x1xi32>
  func.return
}

// -----

// CHECK: 'kn.scan' %y: the decay %a has 4x6, which must be the operand's 1x6 or 1 in each dimension; broadcast the operand first
func.func @wider(%x: tensor<1x6xf16>, %a: tensor<4x6xf16>) {
  %y = kn.scan %x decay %a dim 1 : (tensor<1x6xf16>, tensor<4x6xf16>) -> tensor<1x6xf16>
  func.return
}

// -----

// CHECK: 'kn.scan' %y computes on floating-point numbers, but %x has elements of i32; insert a 'kn.cast' to f32 first
func.func @counted(%x: tensor<4x6xi32>) {
  %y = kn.scan %x dim 1 : (tensor<4x6xi32>) -> tensor<4x6xi32>
  func.return
}

// -----

// CHECK: 'kn.gather' %y: numbers of rows are of i32 or i64, but %i has elements of i8
func.func @numbers(%x: tensor<4x6xf16>, %i: tensor<3xi8>) {
  %y = kn.gather %x rows %i : (tensor<4x6xf16>, tensor<3xi8>) -> tensor<3x6xf16>
  func.return
}

// -----

// CHECK: 'kn.gather' %y moves elements as they are, but %x has f16 and %y f32; insert a 'kn.cast' to convert one
func.func @types(%x: tensor<4x6xf16>, %i: tensor<3xi32>) {
  %y = kn.gather %x rows %i : (tensor<4x6xf16>, tensor<3xi32>) -> tensor<3x6xf32>
  func.return
}

// -----

// CHECK: 'kn.gather' %y: the result has 3x4, expected 3x6
func.func @rows(%x: tensor<4x6xf16>, %i: tensor<3xi32>) {
  %y = kn.gather %x rows %i : (tensor<4x6xf16>, tensor<3xi32>) -> tensor<3x4xf16>
  func.return
}

// -----

// CHECK: 'kn.scatter' %y: the values (argument 0) of 2 rows along dimension 0 of a table (argument 1) of 4x6 must have 2x6, not 3x6
func.func @scattered(%v: tensor<3x6xf16>, %x: tensor<4x6xf16>, %i: tensor<2xi64>) {
  %y = kn.scatter %v into %x rows %i dim 0 : (tensor<3x6xf16>, tensor<4x6xf16>, tensor<2xi64>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.scatter' %y: dim 2 is none of the table's 2 dimensions
func.func @no_dimension(%v: tensor<2x6xf16>, %x: tensor<4x6xf16>, %i: tensor<2xi64>) {
  %y = kn.scatter %v into %x rows %i dim 2 : (tensor<2x6xf16>, tensor<4x6xf16>, tensor<2xi64>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.rms_norm' %y: the norm is taken over the last extents [4], which must be a suffix of the operand's 4x6
func.func @suffix(%x: tensor<4x6xf16>) {
  %y = kn.rms_norm %x over [4] : (tensor<4x6xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.rms_norm' %y: the weight %w has 4, expected 6, the extents that are normalised over
func.func @weight(%x: tensor<4x6xf16>, %w: tensor<4xf16>) {
  %y = kn.rms_norm %x weight %w over [6] : (tensor<4x6xf16>, tensor<4xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.rms_norm' %y: epsilon -1.0 must be a number of at least 0
func.func @epsilon(%x: tensor<4x6xf16>) {
  %y = kn.rms_norm %x over [6] epsilon -1.0 : (tensor<4x6xf16>) -> tensor<4x6xf16>
  func.return
}

// -----

// CHECK: 'kn.concat' %z: part 1 (%y) has 3x2; it must equal the whole tensor's 4x8 but for dimension 1
func.func @part(%x: tensor<4x6xf16>, %y: tensor<3x2xf16>) {
  %z = kn.concat %x, %y dim 1 : (tensor<4x6xf16>, tensor<3x2xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.concat' %z: the parts have 12 elements along dimension 1 together, the whole tensor (%z) has 8
func.func @sum(%x: tensor<4x6xf16>) {
  %z = kn.concat %x, %x dim 1 : (tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.concat' %z moves elements as they are, but %x has f16 and %y f32; insert a 'kn.cast' to convert one
func.func @types(%x: tensor<4x6xf16>, %y: tensor<4x2xf32>) {
  %z = kn.concat %x, %y dim 1 : (tensor<4x6xf16>, tensor<4x2xf32>) -> tensor<4x8xf16>
  func.return
}

// -----

// CHECK: 'kn.chunk' %a: 6 elements along dimension 1 do not fall into 4 equal parts; use kn.split
func.func @uneven(%x: tensor<4x6xf16>) {
  %a, %b, %c, %d = kn.chunk %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x2xf16>, tensor<4x2xf16>, tensor<4x1xf16>, tensor<4x1xf16>)
  func.return
}

// -----

// CHECK: 'kn.chunk' %a: its parts have [4, 2] elements along dimension 1, expected 3 each; use kn.split
func.func @unequal(%x: tensor<4x6xf16>) {
  %a, %b = kn.chunk %x dim 1 : (tensor<4x6xf16>) -> (tensor<4x4xf16>, tensor<4x2xf16>)
  func.return
}

// -----

// CHECK: 'kn.copy' %y: the result has 6x4, expected 4x6
func.func @copy(%x: tensor<4x6xf16>) {
  %y = kn.copy %x : tensor<4x6xf16> -> tensor<6x4xf16>
  func.return
}
