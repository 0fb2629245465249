// RUN: mg-opt --overlap-collectives=everywhere %s > %t
// RUN: filecheck %s < %t
// RUN: mg-check %t %s
// RUN: mg-run %t --check
// RUN: mg-opt --overlap-collectives %s | filecheck %s --check-prefix=FEW

// A product of few rows takes longer in parts than what it would hide.
// FEW-NOT: mugraph.part

// Before a sum each member's part is computed by itself, and delivered; the member adds parts up in the order of places.
// CHECK-LABEL: func.func @f
// CHECK: [[X0:%.*]] = kn.slice %x from [0, 0] {mugraph.part = array<i64: 0, 1, 0>} : tensor<8x16xf16> -> tensor<4x16xf16>
// CHECK: [[X1:%.*]] = kn.slice %x from [4, 0] {mugraph.part = array<i64: 1, 1, 0>} : tensor<8x16xf16> -> tensor<4x16xf16>
// CHECK: [[Y0:%.*]] = kn.matmul [[X0]], %w {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[Y1:%.*]] = kn.matmul [[X1]], %w {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[Y:%.*]] = kn.concat [[Y0]], [[Y1]] dim 0
// CHECK: [[D:%.*]] = kn.all_to_all [[Y]] axes [0] split 0 concat 0 delivered
// CHECK: [[D0:%.*]] = kn.slice [[D]] from [0, 0]
// CHECK: [[D1:%.*]] = kn.slice [[D]] from [4, 0]
// CHECK: [[S:%.*]] = kn.add [[D0]], [[D1]]
// CHECK: [[N:%.*]] = kn.rms_norm [[S]]

// Behind a gather the product of a part waits for that part alone; so does what stands behind the product.
// CHECK: [[P0:%.*]] = kn.peer [[N]] axes [0] place 0
// CHECK: [[P1:%.*]] = kn.peer [[N]] axes [0] place 1
// CHECK: [[C0:%.*]] = kn.copy [[P0]] {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[C1:%.*]] = kn.copy [[P1]] {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[A0:%.*]] = kn.matmul [[C0]], %u {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[A1:%.*]] = kn.matmul [[C1]], %u {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[B0:%.*]] = kn.silu [[A0]] {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[B1:%.*]] = kn.silu [[A1]] {mugraph.part = array<i64: 1, 1, 0>}
// CHECK: [[H0:%.*]] = kn.matmul [[B0]], %d {mugraph.part = array<i64: 0, 1, 0>}
// CHECK: [[H1:%.*]] = kn.matmul [[B1]], %d {mugraph.part = array<i64: 1, 1, 0>}

// A sum that all devices need is gathered from those that made its parts.
// CHECK: kn.concat [[H0]], [[H1]] dim 0
// CHECK-NEXT: kn.all_to_all {{%.*}} axes [0] split 0 concat 0 delivered
// CHECK: [[R:%.*]] = kn.add
// CHECK: kn.peer [[R]] axes [0] place 0
// CHECK: kn.peer [[R]] axes [0] place 1
// CHECK: kn.concat
func.func @f(%x: tensor<8x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<16x12xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
             %u: tensor<12x20xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %d: tensor<20x12xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<8x12xf16> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %y = kn.matmul %x, %w : (tensor<8x16xf16>, tensor<16x12xf16>) -> tensor<8x12xf16>
  %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<8x12xf16> -> tensor<4x12xf16>
  %n = kn.rms_norm %s over [12] : (tensor<4x12xf16>) -> tensor<4x12xf16>
  %g = kn.all_gather %n axes [0] dim 0 : tensor<4x12xf16> -> tensor<8x12xf16>
  %a = kn.matmul %g, %u : (tensor<8x12xf16>, tensor<12x20xf16>) -> tensor<8x20xf16>
  %b = kn.silu %a : tensor<8x20xf16> -> tensor<8x20xf16>
  %h = kn.matmul %b, %d : (tensor<8x20xf16>, tensor<20x12xf16>) -> tensor<8x12xf16>
  %r = kn.all_reduce %h axes [0] : tensor<8x12xf16> -> tensor<8x12xf16>
  func.return %r : tensor<8x12xf16>
}
