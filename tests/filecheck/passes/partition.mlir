// RUN: mg-opt --partition %s | filecheck %s
// RUN: mg-opt --partition %s | mg-opt --fuse-kernels | filecheck %s --check-prefix=FUSED
// RUN: mg-opt --explain-partition %s 2>&1 >/dev/null | filecheck %s --check-prefix=EXPLAIN

// Columns, then rows of weights: a sum of parts at the end, before what is not linear in it.
// CHECK-LABEL: func.func @mlp
// CHECK-SAME: %w1: tensor<64x32xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>}
// CHECK-SAME: mugraph.per_device
// CHECK-NEXT: kn.matmul %x, %w1 : (tensor<8x64xf16>, tensor<64x32xf16>) -> tensor<8x32xf16>
// CHECK-NEXT: kn.silu
// CHECK-NEXT: [[P:%.*]] = kn.matmul {{.*}} -> tensor<8x64xf16>
// CHECK-NEXT: kn.all_reduce [[P]] axes [0] : tensor<8x64xf16> -> tensor<8x64xf16>
// CHECK-NEXT: kn.add
// CHECK-NEXT: func.return
func.func @mlp(%x: tensor<8x64xf16>,
               %w1: tensor<64x128xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %w2: tensor<128x64xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<8x64xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [4]} {
  %h = kn.matmul %x, %w1 : (tensor<8x64xf16>, tensor<64x128xf16>) -> tensor<8x128xf16>
  %s = kn.silu %h : tensor<8x128xf16> -> tensor<8x128xf16>
  %p = kn.matmul %s, %w2 : (tensor<8x128xf16>, tensor<128x64xf16>) -> tensor<8x64xf16>
  %y = kn.add %p, %x : (tensor<8x64xf16>, tensor<8x64xf16>) -> tensor<8x64xf16>
  func.return %y : tensor<8x64xf16>
}
// Operators between collectives share a kernel.
// FUSED-LABEL: func.func @mlp
// FUSED: kn.customized %x, %w1, %w2
// FUSED: kn.all_reduce
// FUSED-NEXT: kn.add
// EXPLAIN: @mlp on 4 devices: each sends 1,536 B in 1 collective (no way takes less time); 24,576 B with all arguments gathered first
// EXPLAIN-NEXT: 'kn.matmul' %h: dimension 1 of its result shared along axis 0
// EXPLAIN-NEXT: 'kn.silu' %s: dimension 1 of its result shared along axis 0
// EXPLAIN-NEXT: 'kn.matmul' %p: dimension 1 of operand 0 shared along axis 0, which leaves a partial sum
// EXPLAIN-NEXT: kn.all_reduce of %p, 8x64 of f16, along axis 0: 1,536 B sent by each device
// EXPLAIN-NEXT: after 'kn.matmul' %p it is a partial sum along axis 0; 'kn.add' %y needs one that is whole on each device
// EXPLAIN-NEXT: 'kn.add' %y: the same on all devices along axis 0

// -----

// Softmax along a cut dimension: a maximum and a sum of one element a row go around.
// CHECK-LABEL: func.func @softmax
// CHECK: kn.all_reduce {{.*}} combine max axes [0] : tensor<4096x1xf32> -> tensor<4096x1xf32>
// CHECK: kn.all_reduce {{.*}} axes [0] : tensor<4096x1xf32> -> tensor<4096x1xf32>
// CHECK-NOT: kn.all_
func.func @softmax(%x: tensor<4096x8192xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    -> tensor<4096x8192xf16> attributes {mugraph.mesh = [2]} {
  %y = kn.softmax %x dim 1 : tensor<4096x8192xf16> -> tensor<4096x8192xf16>
  func.return %y : tensor<4096x8192xf16>
}

// -----

// Of few elements one collective that sends all of them takes less time than two that send some.
// CHECK-LABEL: func.func @small_softmax
// CHECK-NEXT: kn.all_to_all {{.*}} split 0 concat 1
// CHECK-NOT: kn.all_
func.func @small_softmax(%x: tensor<4x128xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    -> tensor<4x128xf16> attributes {mugraph.mesh = [2]} {
  %y = kn.softmax %x dim 1 : tensor<4x128xf16> -> tensor<4x128xf16>
  func.return %y : tensor<4x128xf16>
}

// -----

// Two axes: rows of x along the first one, columns of w along the second one; nothing is sent.
// CHECK-LABEL: func.func @two_axes
// CHECK-SAME: -> (tensor<4x16xf16> {mugraph.sharding = #kn.sharding<[[0], [1]]>})
// CHECK-NEXT: kn.matmul %x, %w : (tensor<4x64xf16>, tensor<64x16xf16>) -> tensor<4x16xf16>
// CHECK-NEXT: func.return
func.func @two_axes(%x: tensor<8x64xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                    %w: tensor<64x64xf16> {mugraph.sharding = #kn.sharding<[[], [1]]>})
    -> tensor<8x64xf16> attributes {mugraph.mesh = [2, 4]} {
  %y = kn.matmul %x, %w : (tensor<8x64xf16>, tensor<64x64xf16>) -> tensor<8x64xf16>
  func.return %y : tensor<8x64xf16>
}
