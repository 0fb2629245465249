// Every error is one message, exit code 1, and no file.
// RUN: not mg-opt -t cuda %s 2>&1 | filecheck %s --check-prefix SEVERAL
// SEVERAL: mg-opt: error: the module has 3 functions (@plain, @twice, @argument); the CUDA target prints one, say which with -t 'cuda{function=NAME}'
// RUN: not mg-opt -t 'cuda{function=nothing}' %s 2>&1 | filecheck %s --check-prefix NOTHING
// NOTHING: mg-opt: error: the module has no function @nothing; it has @plain, @twice, @argument
// RUN: not mg-opt -t 'cuda{function=plain}' %s -o %t.cu 2>&1 | filecheck %s --check-prefix DTENSOR
// RUN: not ls %t.cu
// DTENSOR: mg-opt: {{.*}}errors.mlir:32:1: error: 'func.func' @plain has no plan for its intermediates; print what --transpile made, or run --plan-dtensor-memory first
// RUN: not mg-opt --resolve-layout --plan-dtensor-memory -t 'cuda{function=plain}' %s 2>&1 | filecheck %s --check-prefix UNSCHEDULED
// UNSCHEDULED: mg-opt: {{.*}}errors.mlir:33:3: error: the CUDA target cannot print 'kn.customized' %o; print a module that --transpile made
// RUN: not mg-opt --plan="tiles=written loads=cp_async" --resolve-layout --plan-dtensor-memory --lower-threadblock -t 'cuda{function=plain}' %s 2>&1 | filecheck %s --check-prefix STENSOR
// STENSOR: mg-opt: {{.*}}errors.mlir:33:3: error: 'sched.kernel' @plain_custom0 has no shared-memory plan; run --plan-stensor-memory first
// RUN: not mg-opt --resolve-layout --plan-dtensor-memory -t 'cuda{function=twice}' %s 2>&1 | filecheck %s --check-prefix TWICE
// TWICE: mg-opt: {{.*}}errors.mlir:40:1: error: result 1 of 'func.func' @twice repeats an earlier result (%y); run --insert-copies first
// RUN: not mg-opt --resolve-layout --plan-dtensor-memory -t 'cuda{function=argument}' %s 2>&1 | filecheck %s --check-prefix ARGUMENT
// ARGUMENT: mg-opt: {{.*}}errors.mlir:44:1: error: result 0 of 'func.func' @argument is its argument %x, which no kernel writes; run --insert-copies first
// RUN: mg-opt --plan="tiles=written loads=cp_async" %unpromoted %examples/lora.mlir | sed '/sched.copy/s/by <128,/by <64,/' | not mg-opt -t cuda 2>&1 | filecheck %s --check-prefix PARTIAL
// PARTIAL: mg-opt: stdin:{{[0-9]+}}:{{[0-9]+}}: error: 'sched.copy' of %{{.*}} is dealt to 64 threads; the CUDA target deals to all 128 of the block
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %examples/lora.mlir | sed 's/SM80_16x8x16_F32F16F16F32_TN/SM80_16x8x8_F32F16F16F32_TN/g' | not mg-opt -t cuda 2>&1 | filecheck %s --check-prefix ATOM
// ATOM: mg-opt: error: the CUDA target's matrix products use SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x16_F32F16F16F32_TN, {{.*}}; it cannot print #cute.tiled_mma<SM80_16x8x8

// RUN: printf 'func.func @f(%%%%x: tensor<4xf16>) -> tensor<4xf16> {\n  %%%%y = arith.addf %%%%x, %%%%x : tensor<4xf16>\n  func.return %%%%y : tensor<4xf16>\n}' > %t.foreign.mlir
// RUN: not mg-opt --plan=tiles=written --transpile -t cuda %t.foreign.mlir 2>&1 | filecheck %s --check-prefix FOREIGN
// RUN: not mg-compile %t.foreign.mlir -o %t.out --sources-only 2>&1 | filecheck %s --check-prefix FOREIGN
// FOREIGN: error: 'func.func' @f has no operators of 'kn' or 'sched', so no kernels; --convert-linalg-to-kn makes such of 'linalg'

// One function of several can be printed; a declaration is none.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile -t 'cuda{function=plain}' %s | filecheck %s
// CHECK: __global__ void {{.*}} plain_custom0(
// CHECK: _execute_mugraph(
func.func private @elsewhere(tensor<16x16xf16>) -> tensor<16x16xf16>
func.func @plain(%x: tensor<16x16xf16>) -> tensor<16x16xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<16x16xf16>):
    %s = tb.input %d imap [-1, -1, -1] : tensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %s omap [-1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x16xf16>
  } : (tensor<16x16xf16>) -> tensor<16x16xf16>
  func.return %o : tensor<16x16xf16>
}
func.func @twice(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xf16>) {
  %y = kn.exp %x : tensor<4xf16> -> tensor<4xf16>
  func.return %y, %y : tensor<4xf16>, tensor<4xf16>
}
func.func @argument(%x: tensor<4xf16>) -> tensor<4xf16> {
  %y = kn.exp %x : tensor<4xf16> -> tensor<4xf16>
  func.return %x : tensor<4xf16>
}
