// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s

// CHECK: %s = tb.carried : !tb.stensor<8x1xf32>
// CHECK: %p = tb.carried from 1.000000e+00 : !tb.stensor<8x1xf32>
// CHECK: %last = tb.carry %n to %s : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
// CHECK: %same = tb.carry %p to %p :
func.func @sums_so_far(%x: tensor<8x64xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>) {
  %y, %z = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%d: tensor<8x64xf32>):
    %t = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<8x16xf32>
    %s = tb.carried : !tb.stensor<8x1xf32>
    %p = tb.carried from 1.0 : !tb.stensor<8x1xf32>
    %r = tb.reduction %t dim 1 : !tb.stensor<8x16xf32> -> !tb.stensor<8x1xf32>
    %n = tb.add %s, %r : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    %last = tb.carry %n to %s : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    %same = tb.carry %p to %p : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    %m = tb.mul %s, %p : (!tb.stensor<8x1xf32>, !tb.stensor<8x1xf32>) -> !tb.stensor<8x1xf32>
    tb.output %m omap [-1, -1, -1] fordim 1 : !tb.stensor<8x1xf32> -> tensor<8x4xf32>
    tb.output %last omap [-1, -1, -1] : !tb.stensor<8x1xf32> -> tensor<8x1xf32>
  } : (tensor<8x64xf32>) -> (tensor<8x4xf32>, tensor<8x1xf32>)
  func.return %y, %z : tensor<8x4xf32>, tensor<8x1xf32>
}
