// RUN: mg-opt --transpile=check-hazards=false --persist-program --check-hazards %s | filecheck %s
// RUN: mg-opt --transpile=check-hazards=false --persist-program -t cuda %s | filecheck %s --check-prefix=CUDA
// RUN: mg-opt --transpile=check-hazards=false --persist-program %s | sed 's/array<i64: 1, 4>/array<i64: 1, 3>/' | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix=RACE
// RUN: mg-opt --transpile=check-hazards=false --persist-program %s | sed 's/array<i64: 1, 4>/array<i64: 1, 5>/' | not mg-opt --check-hazards 2>&1 | filecheck %s --check-prefix=DEADLOCK

// Three layers are the code of one kernel; each waits for all tasks of the one before. cuBLAS is called behind them.

// CHECK-LABEL: func.func @layers
// CHECK:       sched.launch @layers_custom0 {{.*}} {kn.program = {blocks = 12 : i64, resident = 1 : i64, counters = {{[0-9]+}} : i64}, kn.task = {first = 0 : i64, awaits = array<i64>}}
// CHECK-NEXT:  sched.launch @layers_custom0 {{.*}} {kn.task = {first = 4 : i64, awaits = array<i64: 0, 4>}}
// CHECK-NEXT:  sched.launch @layers_custom0 {{.*}} {kn.task = {first = 8 : i64, awaits = array<i64: 1, 4>}}
// CHECK-NEXT:  kn.matmul

// CUDA-COUNT-1: __global__ void
// CUDA-NOT:     __global__ void
// CUDA:         mugraph::launch_program("layers_custom0_program", layers_custom0_program, 12, 128,
// CUDA:         kn::gemm

// RACE: read after write: 'sched.launch' %b reads %a without waiting for all 4 tasks of 'sched.launch' %a
// DEADLOCK: deadlock: 'sched.launch' %b waits for ever until 'sched.launch' %a has counted 5; it has 4 tasks, and counts to 4
func.func @layers(%x: tensor<4x64xf16>, %w: tensor<64x64xf16>) -> tensor<4x64xf16> {
  %z = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%d: tensor<4x64xf16>):
    %row = tb.input %d imap [0, -1, -1] fordim -1 : tensor<4x64xf16> -> !tb.stensor<1x64xf16>
    %e = tb.exp %row : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<4x64xf16>
  } : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %a = kn.customized %z grid [4, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%d: tensor<4x64xf16>):
    %row = tb.input %d imap [0, -1, -1] fordim -1 : tensor<4x64xf16> -> !tb.stensor<1x64xf16>
    %e = tb.exp %row : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<4x64xf16>
  } : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %b = kn.customized %a grid [4, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%d: tensor<4x64xf16>):
    %row = tb.input %d imap [0, -1, -1] fordim -1 : tensor<4x64xf16> -> !tb.stensor<1x64xf16>
    %e = tb.exp %row : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<4x64xf16>
  } : (tensor<4x64xf16>) -> tensor<4x64xf16>
  %y = kn.matmul %b, %w : (tensor<4x64xf16>, tensor<64x64xf16>) -> tensor<4x64xf16>
  func.return %y : tensor<4x64xf16>
}
