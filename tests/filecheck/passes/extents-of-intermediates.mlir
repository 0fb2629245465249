// What stands behind a product of the library ends where the call does, and intermediates keep room for the largest
// value: the strides of their tensor maps are the same at each call.
// RUN: mg-opt --plan --transpile %s -o %t.mlir
// RUN: mg-opt %t.mlir | filecheck %s
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-run --size n=37 --scale 0.25 --check %t.mlir | filecheck %s --check-prefix AT37

// CHECK: sched.kernel @sums_custom0 inputs 2 grid [1, 128, 1] cut [1, 1, 3]
// CHECK: sched.kernel @sums_custom1 inputs 3 lengths [2, 384] grid [2, 1, 1]
// CHECK: sched.local_tile %t map {{.*}} ending %n : index along [2] : !sched.global<2x64x384xf16, (2,64,384):(24576,1,64)>
// CHECK: sched.bulk_copy
// CHECK: kn.matmul %x, %w rows "n"

// CUDA: t_map.at(t, {64, static_cast<uint64_t>(n), 2})
// CUDA-SAME: z_map.at(z, {64, static_cast<uint64_t>(n), 2})

// AT37: within
func.func @sums(%x: tensor<384x128xf16> {mugraph.extent = ["n", ""]}, %w: tensor<128x128xf16>, %y: tensor<384x2x64xf16> {mugraph.extent = ["n", "", ""]}) -> tensor<2x64x64xf16> attributes {mugraph.extents = {n = {largest = 384, least = 1}}} {
  %n = kn.extent "n" : tensor<1xi32>
  %p = kn.matmul %x, %w : (tensor<384x128xf16>, tensor<128x128xf16>) -> tensor<384x128xf16>
  %r = kn.reshape %p : tensor<384x128xf16> -> tensor<384x2x64xf16>
  %h = kn.transpose %r dims [1, 0, 2] : tensor<384x2x64xf16> -> tensor<2x384x64xf16>
  %e = kn.customized %h grid [2, 6, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%a: tensor<2x384x64xf16>):
    %b = tb.input %a imap [0, 1, -1] : tensor<2x384x64xf16> -> !tb.stensor<1x64x64xf16>
    %c = tb.exp %b : !tb.stensor<1x64x64xf16> -> !tb.stensor<1x64x64xf16>
    tb.output %c omap [0, 1, -1] : !tb.stensor<1x64x64xf16> -> tensor<2x384x64xf16, #cute.layout<(2,384,64):(24576,64,1)>>
  } : (tensor<2x384x64xf16>) -> tensor<2x384x64xf16, #cute.layout<(2,384,64):(24576,64,1)>>
  %t = kn.transpose %e dims [0, 2, 1] : tensor<2x384x64xf16, #cute.layout<(2,384,64):(24576,64,1)>> -> tensor<2x64x384xf16>
  %z = kn.transpose %y dims [1, 0, 2] : tensor<384x2x64xf16> -> tensor<2x384x64xf16>
  %s = kn.customized %t, %n, %z grid [2, 1, 1] block [128, 1, 1] forloop 1 lengths [1, 384] plan <forloop = 6, split_k = 1, loads = tma> {
  ^bb0(%t_1: tensor<2x64x384xf16>, %n_1: tensor<1xi32>, %z_1: tensor<2x384x64xf16>):
    %t_2 = tb.input %t_1 imap [0, -1, -1] ending [2, 0] : tensor<2x64x384xf16> -> !tb.stensor<1x64x384xf16>
    %z_2 = tb.input %z_1 imap [0, -1, -1] ending [1, 0] : tensor<2x384x64xf16> -> !tb.stensor<1x384x64xf16>
    %q = tb.matmul %t_2, %z_2 : (!tb.stensor<1x64x384xf16>, !tb.stensor<1x384x64xf16>) -> !tb.stensor<1x64x64xf16>
    tb.output %q omap [0, -1, -1] : !tb.stensor<1x64x64xf16> -> tensor<2x64x64xf16>
  } : (tensor<2x64x384xf16>, tensor<1xi32>, tensor<2x384x64xf16>) -> tensor<2x64x64xf16>
  func.return %s : tensor<2x64x64xf16>
}
