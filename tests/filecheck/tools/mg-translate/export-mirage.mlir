// RUN: mg-translate --export-mirage %s | filecheck %s
// RUN: mg-translate --export-mirage %s --generation 1 | filecheck %s --check-prefix FIRST
// RUN: mg-translate --export-mirage - < %s | mg-translate --import-mirage - --generation 3 | filecheck %s --check-prefix BACK

// CHECK:      [
// CHECK-NEXT: {"op_type": "kn_input_op", {{.*}}"data_type": 940, {{.*}}"input_strides": [8, 1], {{.*}}"strides_are_free": true},
// CHECK-NEXT: {"op_type": "kn_customized_op", {{.*}}"op_type": "tb_mul_scalar_op", {{.*}}"scalar": 0.5}, {{.*}}"tb_forloop_accum_red_ld_rms_op"
// CHECK-NEXT: {"op_type": "kn_output_op", {{.*}}"output_strides": [1, 1]
// CHECK-NEXT: ]
// FIRST: "data_type": 921
// FIRST: "tb_accum_red_ld_rms_op"
// BACK: func.func @mugraph(%dtensor10000000: tensor<4x8xf16>) -> tensor<4x1xf16, #cute.layout<(4,1):(1,1)>> {
// BACK: tb.mul_scalar {{.*}} by 5.000000e-01
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x1xf16, #cute.layout<(4,1):(1,1)>> {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<4x8xf16>):
    %s = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<4x8xf16> -> !tb.stensor<2x4xf16>
    %m = tb.mul_scalar %s by 0.5 : !tb.stensor<2x4xf16> -> !tb.stensor<2x4xf16>
    %r = tb.forloop_accum rms %m : !tb.stensor<2x4xf16> -> !tb.stensor<2x1xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<2x1xf16> -> tensor<4x1xf16, #cute.layout<(4,1):(1,1)>>
  } : (tensor<4x8xf16>) -> tensor<4x1xf16, #cute.layout<(4,1):(1,1)>>
  func.return %o : tensor<4x1xf16, #cute.layout<(4,1):(1,1)>>
}

// RUN: not mg-translate --export-mirage %S/Inputs/two_graphs.json --index 1 2>&1 | filecheck %s --check-prefix BOTH
// BOTH: mg-translate: error: --export-mirage goes with none of --import-mirage, --index, --mesh.
// RUN: mg-opt --plan=tiles=written --transpile %s | not mg-translate --export-mirage - 2>&1 | filecheck %s --check-prefix LATE
// LATE: mg-translate: error: 'sched.launch' %o: it has a place in the workspace; export before --plan-dtensor-memory.
