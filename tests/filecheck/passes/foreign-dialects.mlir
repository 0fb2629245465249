// Functions of other dialects beside a µGraph keep every byte of their text, through every pass.
// RUN: mg-opt --print-between-passes --insert-copies --online-softmax --decompose-threadblock --mask-ragged --fuse-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock --pipeline-loads --plan-swizzle --plan-stensor-memory --check-hazards %s > %t.stages
// RUN: mg-opt %s > %t.input
// RUN: cat %t.input %t.stages | %python %S/Inputs/texts_of_functions.py | filecheck %s --check-prefix SAME
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile %s > %t.transpiled.mlir
// RUN: cat %t.input %t.transpiled.mlir | %python %S/Inputs/texts_of_functions.py | filecheck %s --check-prefix WHOLE
// RUN: filecheck %s < %t.transpiled.mlir
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile %t.transpiled.mlir | cmp - %t.transpiled.mlir
// Printed, run and verified is the µGraph.
// RUN: mg-opt -t cuda %t.transpiled.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-run --scale 0.25 --check %s | filecheck %s --check-prefix RESULT
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile --verify-semantics %s 2>&1 >%t.verified | filecheck %s --check-prefix VERIFIED

// SAME:      @report: the same in 13 of 13 modules
// SAME-NEXT: @saxpy: the same in 13 of 13 modules
// SAME-NEXT: @scores: {{[4-9]}} texts in 13 of 13 modules
// SAME-NEXT: @scores_of: 2 texts in 13 of 13 modules
// SAME-NEXT: @product: the same in 13 of 13 modules
// SAME-NEXT: @first: the same in 13 of 13 modules
// SAME-NEXT: @twice: the same in 13 of 13 modules

// WHOLE:      @report: the same in 2 of 2 modules
// WHOLE-NEXT: @saxpy: the same in 2 of 2 modules
// WHOLE-NEXT: @scores: 2 texts in 2 of 2 modules
// WHOLE-NEXT: @scores_of: 2 texts in 2 of 2 modules
// WHOLE-NEXT: @product: the same in 2 of 2 modules
// WHOLE-NEXT: @first: the same in 2 of 2 modules
// WHOLE-NEXT: @twice: the same in 2 of 2 modules

// CUDA: __global__ {{.*}}scores_custom0

// RESULT: output 0, 64x64 float16: relative error

// VERIFIED:      note: @saxpy is of other dialects and was not checked
// VERIFIED:      note: @twice is of other dialects and was not checked
// VERIFIED-NEXT: note: @scores computes the same after each of

// CHECK:      func.func private @report(memref<64xf32>) -> f32
func.func private @report(memref<64xf32>) -> f32

// CHECK-NEXT: func.func @saxpy(%a: f32, %x: memref<64xf32>, %y: memref<64xf32>) -> f32 {
// CHECK:        scf.for %i = %zero to %end step %one {
// CHECK:          memref.store %sum, %y[%i] : memref<64xf32>
func.func @saxpy(%a: f32, %x: memref<64xf32>, %y: memref<64xf32>) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 64 : index
  scf.for %i = %zero to %end step %one {
    %xi = memref.load %x[%i] : memref<64xf32>
    %yi = memref.load %y[%i] : memref<64xf32>
    %product = arith.mulf %a, %xi : f32
    %sum = arith.addf %product, %yi : f32
    memref.store %sum, %y[%i] : memref<64xf32>
  }
  %norm = func.call @report(%y) : (memref<64xf32>) -> f32
  func.return %norm : f32
}

// CHECK:      sched.kernel @scores_custom0
// CHECK:      func.func @scores(%q: tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>
// CHECK-NEXT:   %s = sched.launch @scores_custom0 %q, %k
func.func @scores(%q: tensor<64x64xf16>, %k: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %s = kn.customized %q, %k grid [1, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dq: tensor<64x64xf16>, %dk: tensor<64x64xf16>):
    %sq = tb.input %dq imap [-1, -1, -1] fordim 1 : tensor<64x64xf16> -> !tb.stensor<64x32xf16>
    %sk = tb.input %dk imap [-1, -1, -1] fordim 0 : tensor<64x64xf16> -> !tb.stensor<32x64xf16>
    %m = tb.matmul %sq, %sk : (!tb.stensor<64x32xf16>, !tb.stensor<32x64xf16>) -> !tb.stensor<64x64xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %e = tb.exp %am : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %e omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %s : tensor<64x64xf16>
}

// All that a caller sees of the layouts is a cast on either side of the call.
// CHECK:      func.func @scores_of(%q: tensor<64x64xf16>, %k: tensor<64x64xf16>) -> tensor<64x64xf16> {
// CHECK-NEXT:   %[[Q:.*]] = builtin.unrealized_conversion_cast %q : tensor<64x64xf16> to tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>
// CHECK-NEXT:   %[[K:.*]] = builtin.unrealized_conversion_cast %k : tensor<64x64xf16> to tensor<64x64xf16, #cute.layout<(64,64):(64,1)>>
// CHECK-NEXT:   %[[LAID_OUT:.*]] = func.call @scores(%[[Q]], %[[K]])
// CHECK-NEXT:   %[[S:.*]] = builtin.unrealized_conversion_cast %[[LAID_OUT]] : tensor<64x64xf16, #cute.layout<(64,64):(64,1)>> to tensor<64x64xf16>
// CHECK-NEXT:   func.return %[[S]] : tensor<64x64xf16>
// CHECK-NEXT: }
func.func @scores_of(%q: tensor<64x64xf16>, %k: tensor<64x64xf16>) -> tensor<64x64xf16> {
  %s = func.call @scores(%q, %k) : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
  func.return %s : tensor<64x64xf16>
}

// CHECK-NEXT: func.func @product(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
// CHECK-NEXT:   %zero = arith.constant 0.000000e+00 : f32
func.func @product(%a: tensor<8x16xf32>, %b: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8x8xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = linalg.matmul ins(%a, %b : tensor<8x16xf32>, tensor<16x8xf32>) outs(%filled : tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %c : tensor<8x8xf32>
}

// What would be a copy in a µGraph: an argument that is returned, and a value returned twice.
// CHECK: func.func @first(%i: index) -> index {
func.func @first(%i: index) -> index {
  func.return %i : index
}

// CHECK: func.func @twice(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
// CHECK:   func.return %c, %c, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
func.func @twice(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %c = linalg.add ins(%a, %b : tensor<8x8xf32>, tensor<8x8xf32>) outs(%a : tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %c, %c, %b : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
