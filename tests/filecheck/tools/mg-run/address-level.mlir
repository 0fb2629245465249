// The schedule on bytes and addresses, all blocks and a sample of them.
// RUN: mg-opt --plan="tiles=written loads=cp_async" --transpile %s > %t
// RUN: mg-run %t --level=address --check | filecheck %s
// CHECK-NOT: blocks:
// CHECK: check: output 0, 32x64 float16: relative error {{[1-9].*}}e-04 against float64, within 0.002
// RUN: mg-run %t --level=address --blocks 2 --order 3 --landing earliest --check | filecheck %s --check-prefix SAMPLE
// SAMPLE: blocks: 2 of @matmul_custom0 ran: [0, 0, 0] [3, 1, 0]
// SAMPLE-NEXT: check: output 0, 32x64 float16: relative error {{[1-9].*}}e-04 against float64, within 0.002

// A plan under which buffers overlap gives other numbers.
// RUN: sed 's/ offset [0-9]*/ offset 0/' %t > %t.overlapping
// RUN: not mg-run %t.overlapping --level=address --check | filecheck %s --check-prefix WRONG
// WRONG: check: output 0, 32x64 float16: relative error {{.*}}, FAILED: over 0.002
// RUN: mg-run %t.overlapping --check | filecheck %s

// RUN: not mg-run %s --level=address 2>&1 | filecheck %s --check-prefix UNSCHEDULED
// UNSCHEDULED: mg-run: {{.*}}address-level.mlir:28:3: error: 'kn.customized' %o has no addresses before it is scheduled; run --transpile first
// RUN: not mg-run %t --blocks 2 2>&1 | filecheck %s --check-prefix LEVEL
// LEVEL: mg-run: error: --blocks, --order and --landing need --level=address.
// RUN: not mg-run %t --level=address --backend=cuda 2>&1 | filecheck %s --check-prefix BACKEND
// BACKEND: mg-run: error: --level=address is of the interpreter; leave out --backend=cuda.
// RUN: not mg-run %t --level=address --blocks 0 2>&1 | filecheck %s --check-prefix NONE
// NONE: mg-run: error: 0 blocks cannot run; ask for at least 1
// RUN: not mg-run %t --level=address --order sideways 2>&1 | filecheck %s --check-prefix ORDER
// ORDER: mg-run: error: there is no order 'sideways'; there are 'together', 'forward', 'reversed' and numbers, the seeds of random orders

func.func @matmul(%a: tensor<32x128xf16>, %b: tensor<128x64xf16>) -> tensor<32x64xf16> {
  %o = kn.customized %a, %b grid [4, 2, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%da: tensor<32x128xf16>, %db: tensor<128x64xf16>):
    %sa = tb.input %da imap [-1, 0, -1] fordim 1 : tensor<32x128xf16> -> !tb.stensor<16x32xf16>
    %sb = tb.input %db imap [1, -1, -1] fordim 0 : tensor<128x64xf16> -> !tb.stensor<32x16xf16>
    %m = tb.matmul %sa, %sb : (!tb.stensor<16x32xf16>, !tb.stensor<32x16xf16>) -> !tb.stensor<16x16xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<16x16xf16> -> !tb.stensor<16x16xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<16x16xf16> -> tensor<32x64xf16>
  } : (tensor<32x128xf16>, tensor<128x64xf16>) -> tensor<32x64xf16>
  func.return %o : tensor<32x64xf16>
}
