// What is computed of a vector that a copy brings is computed in registers, dealt out to the threads,
// also where the vector is broadcast along one dimension only: threads of a row do not hold it, and
// no barrier comes between the copy and the operator.
// RUN: mg-opt --plan="tiles=written loads=cp_async pdl=none" --transpile %s | filecheck %s

// CHECK:      sched.prologue {
// CHECK:        sched.copy %dv_tile to %sv by <128, vector 2
// CHECK:      sched.forloop
// CHECK-NOT:    sched.barrier
// CHECK:        sched.map add_scalar(1.0) %sv{{[_0-9]*}} to [[R:%[^ ]+]] then [rsqrt]
// CHECK:        sched.barrier
// CHECK-NOT:    sched.barrier
// CHECK:        sched.map mul %sx{{[_0-9]*}}, [[R]] to
func.func @scaled(%x: tensor<64x256x16xf16>, %v: tensor<1x256x1xf16>) -> tensor<64x256x16xf16> {
  %o = kn.customized %x, %v grid [64, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x256x16xf16>, %dv: tensor<1x256x1xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x256x16xf16> -> !tb.stensor<1x256x16xf16>
    %sv = tb.input %dv imap [-1, -1, -1] : tensor<1x256x1xf16> -> !tb.stensor<1x256x1xf16>
    %e = tb.add_scalar %sv by 1.0 : !tb.stensor<1x256x1xf16> -> !tb.stensor<1x256x1xf16>
    %r = tb.rsqrt %e : !tb.stensor<1x256x1xf16> -> !tb.stensor<1x256x1xf16>
    %y = tb.mul %sx, %r : (!tb.stensor<1x256x16xf16>, !tb.stensor<1x256x1xf16>) -> !tb.stensor<1x256x16xf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<1x256x16xf16> -> tensor<64x256x16xf16>
  } : (tensor<64x256x16xf16>, tensor<1x256x1xf16>) -> tensor<64x256x16xf16>
  func.return %o : tensor<64x256x16xf16>
}
