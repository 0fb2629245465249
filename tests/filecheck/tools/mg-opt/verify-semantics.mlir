// The module is run before and after each pass, those of --transpile one by one.

// RUN: mg-opt --verify-semantics --plan=tiles=written --transpile %s 2>&1 >%t | filecheck %s
// CHECK: mg-opt: note: @silu computes the same after each of {{[0-9]+}} passes (float64, seed 0 (scale 1)); rounding took at most {{[1-9][0-9]?}}% of its derived budget
// RUN: filecheck %s --check-prefix RESULT < %t
// RESULT: sched.kernel

// Nothing is said, and nothing run, without the flag.
// RUN: mg-opt --fuse-threadblock %s 2>&1 | filecheck %s --check-prefix SILENT
// SILENT-NOT: note

// What the interpreter cannot run cannot be verified.
// RUN: echo 'func.func @f() -> i32 { %%c = arith.constant 1 : i32  func.return %%c : i32 }' | not mg-opt --verify-semantics --cse 2>&1 | filecheck %s --check-prefix UNKNOWN
// UNKNOWN: mg-opt: stdin:{{[0-9]+}}:{{[0-9]+}}: error: --verify-semantics needs functions that the interpreter can execute, and 'func.func' @f is none: 'arith.constant' %c cannot be executed by the interpreter yet

func.func @silu(%x: tensor<16x64xf16>) -> tensor<16x64xf16> {
  %y = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%d: tensor<16x64xf16>):
    %s = tb.input %d imap [1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
    %f = tb.silu %s : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    %a = tb.forloop_accum none %f : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<16x16xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %y : tensor<16x64xf16>
}
