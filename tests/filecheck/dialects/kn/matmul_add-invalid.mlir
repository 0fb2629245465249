// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: 'kn.matmul_add' %y: its product is 8x24, but it is added to 8x1
func.func @extents(%x: tensor<8x16xf16>, %w: tensor<16x24xf16>, %r: tensor<8x1xf16>) {
  %y = kn.matmul_add %x, %w, %r : (tensor<8x16xf16>, tensor<16x24xf16>, tensor<8x1xf16>) -> tensor<8x24xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul_add' %y: its product is 2x8x24, expected a matrix
func.func @batched(%x: tensor<2x8x16xf16>, %w: tensor<2x16x24xf16>, %r: tensor<2x8x24xf16>) {
  %y = kn.matmul_add %x, %w, %r : (tensor<2x8x16xf16>, tensor<2x16x24xf16>, tensor<2x8x24xf16>) -> tensor<2x8x24xf16>
  func.return
}

// -----

// CHECK: 'kn.matmul_add' %y is of f32, expected f16 or bf16: write a 'kn.matmul' and a 'kn.add'
func.func @wide(%x: tensor<8x16xf32>, %w: tensor<16x24xf32>, %r: tensor<8x24xf32>) {
  %y = kn.matmul_add %x, %w, %r : (tensor<8x16xf32>, tensor<16x24xf32>, tensor<8x24xf32>) -> tensor<8x24xf32>
  func.return
}
