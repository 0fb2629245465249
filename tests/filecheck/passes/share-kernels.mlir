// RUN: mg-opt --resolve-layout --lower-threadblock --share-kernels %s | filecheck %s
// RUN: mg-opt --resolve-layout --lower-threadblock %s | filecheck %s
// RUN: mg-opt --transpile -t 'cuda{function=layers}' %s | filecheck %s --check-prefix=CUDA

// Two layers are alike but for the names of their values. Of the third the weight is constant, so that it is
// loaded before the kernel waits for the one before; the fourth multiplies by another number.

// CHECK-COUNT-3: sched.kernel @layers_custom
// CHECK-NOT:     sched.kernel
// CHECK:         [[Y:%[^ ]+]] = sched.launch @layers_custom0 %x, %v
// CHECK-NEXT:    [[Z:%[^ ]+]] = sched.launch @layers_custom0 [[Y]], %w
// CHECK-NEXT:    [[A:%[^ ]+]] = sched.launch @layers_custom2 [[Z]], %u
// CHECK-NEXT:    sched.launch @layers_custom3 [[A]], %v

// CUDA-COUNT-3: __global__ void
// CUDA-NOT:     __global__ void
func.func @layers(%x: tensor<16x64xf16>, %v: tensor<1x64xf16>, %w: tensor<1x64xf16>,
                  %u: tensor<1x64xf16> {mugraph.constant}) -> tensor<16x64xf16> {
  %y = kn.customized %x, %v grid [16, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<16x64xf16>, %dv: tensor<1x64xf16>):
    %row = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %weight = tb.input %dv imap [-1, -1, -1] fordim -1 : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %scaled = tb.mul_scalar %row by 2.0 : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %o = tb.mul %scaled, %weight : (!tb.stensor<1x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<1x64xf16>
    tb.output %o omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<1x64xf16>) -> tensor<16x64xf16>
  %z = kn.customized %y, %w grid [16, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%da: tensor<16x64xf16>, %db: tensor<1x64xf16>):
    %c = tb.input %da imap [0, -1, -1] fordim -1 : tensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %d = tb.input %db imap [-1, -1, -1] fordim -1 : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %e = tb.mul_scalar %c by 2.0 : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %f = tb.mul %e, %d : (!tb.stensor<1x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<1x64xf16>
    tb.output %f omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<1x64xf16>) -> tensor<16x64xf16>
  %a = kn.customized %z, %u grid [16, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<16x64xf16>, %dv: tensor<1x64xf16>):
    %row = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %weight = tb.input %dv imap [-1, -1, -1] fordim -1 : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %scaled = tb.mul_scalar %row by 2.0 : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %o = tb.mul %scaled, %weight : (!tb.stensor<1x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<1x64xf16>
    tb.output %o omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<1x64xf16>) -> tensor<16x64xf16>
  %b = kn.customized %a, %v grid [16, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%dx: tensor<16x64xf16>, %dv: tensor<1x64xf16>):
    %row = tb.input %dx imap [0, -1, -1] fordim -1 : tensor<16x64xf16> -> !tb.stensor<1x64xf16>
    %weight = tb.input %dv imap [-1, -1, -1] fordim -1 : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %scaled = tb.mul_scalar %row by 3.0 : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %o = tb.mul %scaled, %weight : (!tb.stensor<1x64xf16>, !tb.stensor<1x64xf16>) -> !tb.stensor<1x64xf16>
    tb.output %o omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<1x64xf16>) -> tensor<16x64xf16>
  func.return %b : tensor<16x64xf16>
}
