// An error names file, line and column, also of what a pass made; locations print on request.

// RUN: mg-opt %s | filecheck %s --check-prefix PLAIN
// PLAIN-NOT: loc(
// RUN: mg-opt --print-debuginfo --decompose-threadblock %s | filecheck %s --check-prefix LOCATED
// LOCATED: tb.square {{.*}} loc("{{.*}}locations.mlir":32:5)
// LOCATED: tb.sqrt {{.*}} loc("{{.*}}locations.mlir":32:5)

// RUN: sed 's/imap .-1/imap [7/' %s | not mg-opt 2>&1 >/dev/null | filecheck %s --check-prefix VERIFY
// VERIFY: mg-opt: stdin:31:5: error: 'tb.input' %x: imap {{.*}}7

// RUN: sed 's/ -> !tb.stensor<16x1xf16>$//' %s | not mg-opt 2>&1 >/dev/null | filecheck %s --check-prefix PARSE
// PARSE:      mg-opt: stdin:32:58: error: Expected '->'
// PARSE-NEXT: %r = tb.forloop_accum rms %x : !tb.stensor<16x64xf16>
// PARSE-NEXT: {{^ +\^$}}

// RUN: mg-opt --plan=tiles=written --transpile=arch=sm_80 -t 'cuda{line-info=true}' %s | filecheck %s --check-prefix CUDA
// CUDA:      #line 29 "{{.*}}locations.mlir"
// CUDA-NEXT: __global__ void {{.*}} norms_custom0(
// CUDA:      // sched.map
// CUDA-NEXT: #line 32 "{{.*}}locations.mlir"
// CUDA-NEXT: tb::Map<ops::Square
// CUDA:      #line {{[0-9]+}} "kernel.cu"
// CUDA-NEXT: _init()



func.func @norms(%a: tensor<16x64xf16>) -> tensor<16x1xf16> {
  %o = kn.customized %a grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%b: tensor<16x64xf16>):
    %x = tb.input %b imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %r = tb.forloop_accum rms %x : !tb.stensor<16x64xf16> -> !tb.stensor<16x1xf16>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<16x1xf16> -> tensor<16x1xf16>
  } : (tensor<16x64xf16>) -> tensor<16x1xf16>
  func.return %o : tensor<16x1xf16>
}
