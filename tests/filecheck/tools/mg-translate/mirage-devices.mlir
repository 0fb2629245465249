// RUN: mg-opt --partition %s > %t.mlir
// RUN: mg-translate --export-mirage %t.mlir -o %t.json
// RUN: filecheck %s --check-prefix=JSON < %t.json
// RUN: mg-translate --import-mirage %t.json > %t.again.mlir
// RUN: filecheck %s < %t.again.mlir
// RUN: mg-check %t.again.mlir %t.mlir
// RUN: sed 's/, "gpu_dim": {"x": 4, "y": 1, "z": 1}//' %t.json > %t.mirage.json
// RUN: not mg-translate --import-mirage %t.mirage.json 2>&1 | filecheck %s --check-prefix=UNSAID
// RUN: mg-translate --import-mirage %t.mirage.json --mesh 4 | filecheck %s
// RUN: not mg-translate --import-mirage %t.mirage.json --mesh 4by2 2>&1 | filecheck %s --check-prefix=NONE

// Tensors are parts of one GPU each, and Mirage does not write how many there are.
// JSON: "input_map": {"x": 1, "y": -1, "z": -1}, "gpu_dim": {"x": 4, "y": 1, "z": 1}
// JSON: "input_map": {"x": 0, "y": -1, "z": -1}
// JSON: kn_allreduce_op
// JSON: "output_map": {"x": -1, "y": -1, "z": -1}

// CHECK: (%{{.*}}: tensor<8x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
// CHECK-SAME: mugraph.sharding = #kn.sharding<[[0], []]>
// CHECK-SAME: attributes {mugraph.mesh = [4 : i64], mugraph.per_device}
// CHECK: kn.all_reduce

// UNSAID: operator 0 (kn_input_op), input_map: this tensor is cut over several GPUs, and the file does not say how many there are; give --mesh, such as 4 or 2x2.
// NONE: --mesh 4by2 is no number of GPUs; write 4, or 2x2 for two axes.
func.func @f(%x: tensor<8x64xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<64x8xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<8x8xf16> {mugraph.sharding = #kn.sharding<[[]]>}) attributes {mugraph.mesh = [4]} {
  %y = kn.matmul %x, %w : (tensor<8x64xf16>, tensor<64x8xf16>) -> tensor<8x8xf16>
  func.return %y : tensor<8x8xf16>
}
