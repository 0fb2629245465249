// The µGraphs of a file that Mirage wrote, one or all of them, against what they should compute.

// RUN: mg-check --of-file %S/../mg-translate/Inputs/two_graphs.json --index all --against %S/Inputs/saved_reference.mlir | filecheck %s --check-prefix ALL
// ALL:      graph 0: proved equal
// ALL-NEXT: graph 1: proved equal
// ALL-NEXT: 2 graphs: 2 proved equal

// RUN: mg-check --of-file %S/../mg-translate/Inputs/two_graphs.json --index 1 --against %S/Inputs/saved_reference.mlir | filecheck %s --check-prefix ONE
// ONE:     graph 1: proved equal
// ONE-NOT: graph

// Under the contiguous meaning of "sum to dimx" the first file is another function.
// RUN: rm -rf %t && mkdir %t
// RUN: mg-check %s %s | filecheck %s --check-prefix STRIDED
// RUN: not mg-check --sum-to-dimx contiguous --counterexample %t/all %s %s | filecheck %s --check-prefix CONTIGUOUS
// STRIDED:    saved-graphs.mlir: proved equal
// CONTIGUOUS: saved-graphs.mlir: different: no proof, since the normal forms of result 0 differ; float64, seed 0
// RUN: ls %t/all | filecheck %s --check-prefix FILES
// FILES: input0.npy

func.func @sums(%x: tensor<4x32xf16>) -> tensor<4x8xf16> {
  %y = kn.customized %x grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%d: tensor<4x32xf16>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<4x32xf16> -> !tb.stensor<2x32xf16>
    %r = tb.forloop_accum_sum_to_dimx_strided %s : !tb.stensor<2x32xf16> -> !tb.stensor<2x8xf16>
    tb.output %r omap [0, -1, -1] : !tb.stensor<2x8xf16> -> tensor<4x8xf16>
  } : (tensor<4x32xf16>) -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
