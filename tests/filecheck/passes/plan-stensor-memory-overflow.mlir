// Two buffers of 128 KiB that live at once do not fit.  The message lists them, largest first;
// exit code 1, no output.
// RUN: rm -f %t.mlir
// RUN: not mg-opt --plan=tiles=written --transpile %s -o %t.mlir 2>&1 | filecheck %s
// RUN: not ls %t.mlir
// RUN: not mg-opt --plan=tiles=written --transpile=arch=sm_80 %s 2>&1 | filecheck %s --check-prefix SM80
// CHECK:      mg-opt: {{.*}}overflow.mlir:14:3: error: --plan-stensor-memory: 'sched.kernel' @big_custom0 needs 327680 bytes of shared memory, a block of sm_90a has 232448:
// CHECK-NEXT:   %s{{[wx]: (128x512|512x128)}} x 1 stages, 131072 bytes, live in regions 0 to 1
// CHECK-NEXT:   %s{{[wx]: (128x512|512x128)}} x 1 stages, 131072 bytes, live in regions 0 to 1
// CHECK-NEXT:   %m: 128x128 x 1 stages, 65536 bytes, live in regions 0 to
// CHECK-NEXT: None of them is a tile that the for-loop cuts: give inputs a 'fordim', or split the tensors over about 2 times as many blocks ('grid').
// SM80: a block of sm_80 has 166912:
func.func @big(%x: tensor<128x512xf16>, %w: tensor<512x128xf16>) -> tensor<128x128xf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<128x512xf16>, %dw: tensor<512x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<128x512xf16> -> !tb.stensor<128x512xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<512x128xf16> -> !tb.stensor<512x128xf16>
    %m = tb.matmul %sx, %sw then [accum] : (!tb.stensor<128x512xf16>, !tb.stensor<512x128xf16>) -> !tb.stensor<128x128xf16>
    tb.output %m omap [-1, -1, -1] : !tb.stensor<128x128xf16> -> tensor<128x128xf16>
  } : (tensor<128x512xf16>, tensor<512x128xf16>) -> tensor<128x128xf16>
  func.return %o : tensor<128x128xf16>
}
