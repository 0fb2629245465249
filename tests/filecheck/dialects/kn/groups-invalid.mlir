// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.group_tiles' %g: %g is tensor<12xi32>; expected 13 elements of i32
func.func @tiles(%e: tensor<8xi32>) {
  %g, %s, %p, %u = kn.group_tiles %e size 16 : (tensor<8xi32>) -> (tensor<12xi32>, tensor<12xi32>, tensor<100xi32>, tensor<1xi32>)
  func.return
}

// -----

// CHECK: 'kn.group_tiles' %g: tiles of 128 rows of a tensor of 100; expected 1 row to as many as there are
func.func @size(%e: tensor<8xi32>) {
  %g, %s, %p, %u = kn.group_tiles %e size 128 : (tensor<8xi32>) -> (tensor<8xi32>, tensor<8xi32>, tensor<100xi32>, tensor<1xi32>)
  func.return
}

// -----

// CHECK: 'kn.sort_groups' %o: %g is tensor<100xf16>; expected one dimension, of i32 or i64
func.func @numbers(%g: tensor<100xf16>) {
  %o, %p, %e = kn.sort_groups %g : (tensor<100xf16>) -> (tensor<100xi32>, tensor<100xi32>, tensor<8xi32>)
  func.return
}

// -----

// CHECK: 'kn.row_windows' %w: no 9 rows stand side by side in a tensor of 8x4
func.func @run(%x: tensor<8x4xf16>) {
  %w = kn.row_windows %x size 9 : tensor<8x4xf16> -> tensor<1x9x4xf16>
  func.return
}

// -----

// CHECK: 'kn.invert_places' %r: 100 rows are at 9x11 places; expected one dimension or two, and a place for each row
func.func @places(%p: tensor<100xi32>) {
  %r = kn.invert_places %p : tensor<100xi32> -> tensor<9x11xi32>
  func.return
}
