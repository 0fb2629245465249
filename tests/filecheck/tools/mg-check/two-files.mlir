// Two partitions of a matrix product after rms_norm: proved equal, and tested if asked to.
// RUN: rm -rf %t && mkdir %t
// RUN: mg-check %s %S/Inputs/reference.mlir | filecheck %s --check-prefix PROVED
// PROVED: two-files.mlir: proved equal: the normal forms of all results coincide

// RUN: mg-check --thorough --seeds 2 --time %s %S/Inputs/reference.mlir | filecheck %s --check-prefix THOROUGH
// THOROUGH:      proved equal: the normal forms of all results coincide; 2 random evaluations in float64 and 8 with inputs of other sizes, no difference beyond the derived bounds of its rounding; 2 random evaluations over finite fields, no difference (error probability at most {{[0-9.e-]+}})
// THOROUGH-NEXT: processor time: proof {{[0-9.]+}} s, float64 {{[0-9.]+}} s, finite-field {{[0-9.]+}} s
// THOROUGH-NEXT: memory: {{[0-9]+}} MiB at most

// A schedule has no normal form; it is tested.
// RUN: mg-opt --plan=tiles=written --transpile %s -o %t/schedule.mlir
// RUN: mg-check %t/schedule.mlir %s | filecheck %s --check-prefix TESTED
// TESTED: schedule.mlir: tested equal: no proof, since 'sched.launch' {{.*}} has no normal form; 3 random evaluations in float64 and 8 with inputs of other sizes, no difference

// RUN: mg-check --evidence finite-field --primes 227,113 %s %S/Inputs/reference.mlir | filecheck %s --check-prefix SMALL
// SMALL: tested equal: 3 random evaluations over finite fields{{.*}}no difference

// Another function gives a counterexample, which mg-run can be given.
// RUN: not mg-check %s %S/Inputs/without_norm.mlir --counterexample %t/found | filecheck %s --check-prefix DIFFERENT
// DIFFERENT: two-files.mlir: different: no proof, since the normal forms of result 0 differ; float64, seed 0 (scale 1): the first difference is in element [0, 0] of result 0: [[ONE:[0-9.e-]+]] against [[OTHER:[0-9.e-]+]] (rounding explains {{.*}}e-{{[0-9]+}})
// RUN: mg-run %s --inputs %t/found/input0.npy %t/found/input1.npy | filecheck %s --check-prefix EXECUTED
// EXECUTED: output 0, 4x24 float16
// RUN: ls %t/found | filecheck %s --check-prefix FILES
// FILES:      input0.npy
// FILES-NEXT: input1.npy
// FILES-NEXT: result_a.npy
// FILES-NEXT: result_b.npy

func.func @rmsnorm_linear(%x: tensor<4x48xf16>, %w: tensor<48x24xf16>) -> tensor<4x24xf16> {
  %o = kn.customized %x, %w grid [3, 1, 1] block [128, 1, 1] forloop 3 {
  ^bb0(%dx: tensor<4x48xf16>, %dw: tensor<48x24xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<4x48xf16> -> !tb.stensor<4x16xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<48x24xf16> -> !tb.stensor<16x8xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<4x16xf16>, !tb.stensor<16x8xf16>) -> !tb.stensor<4x8xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<4x16xf16> -> !tb.stensor<4x1xf16>
    %d = tb.div %am, %ar : (!tb.stensor<4x8xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x8xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<4x8xf16> -> tensor<4x24xf16>
  } : (tensor<4x48xf16>, tensor<48x24xf16>) -> tensor<4x24xf16>
  func.return %o : tensor<4x24xf16>
}
