// One row takes longer to copy the matrix for than to multiply by it: threads load vectors that start anywhere, and shift them.
// RUN: mg-opt --pad-rows %s | filecheck %s
// RUN: mg-opt --transpile -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-run --check %s | filecheck %s --check-prefix RIGHT

// CHECK-NOT: kn.copy
// CUDA: tb::CopyShifted<{{.*}}mugraph::Tensor<half_t>{dw, dw + 4824672}
// RIGHT: output 0, 1x50257
func.func @one_row(%x: tensor<1x96xf16>, %w: tensor<96x50257xf16>) -> tensor<1x50257xf16> {
  %o = kn.customized %x, %w grid [786, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<1x96xf16>, %dw: tensor<96x50257xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<1x96xf16> -> !tb.stensor<1x48xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<96x50257xf16> -> !tb.stensor<48x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x48xf16>, !tb.stensor<48x64xf16>) -> !tb.stensor<1x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<1x64xf16> -> tensor<1x50257xf16>
  } : (tensor<1x96xf16>, tensor<96x50257xf16>) -> tensor<1x50257xf16>
  func.return %o : tensor<1x50257xf16>
}
