// Threads wait for weights whose rows start anywhere, in each iteration: their loop is divided over seven blocks, too. Rows of 16 bytes arrive while others are multiplied.
// RUN: mg-opt --fuse-kernels --plan %s | filecheck %s

// CHECK-LABEL: func.func @uneven
// CHECK: plan <grid = [32, 1, 1], forloop = 14, tile = [0, 32], block = [256, 1, 1], split_k = 7
func.func @uneven(%x: tensor<1x3584xf16>, %w: tensor<3584x1009xf16>) -> tensor<1x1009xf16> {
  %p = kn.matmul %x, %w : (tensor<1x3584xf16>, tensor<3584x1009xf16>) -> tensor<1x1009xf16>
  %r = kn.relu %p : tensor<1x1009xf16> -> tensor<1x1009xf16>
  func.return %r : tensor<1x1009xf16>
}

// CHECK-LABEL: func.func @whole
// CHECK: plan <
// CHECK-NOT: split_k = 7
func.func @whole(%x: tensor<1x3584xf16>, %w: tensor<3584x1008xf16>) -> tensor<1x1008xf16> {
  %p = kn.matmul %x, %w : (tensor<1x3584xf16>, tensor<3584x1008xf16>) -> tensor<1x1008xf16>
  %r = kn.relu %p : tensor<1x1008xf16> -> tensor<1x1008xf16>
  func.return %r : tensor<1x1008xf16>
}
