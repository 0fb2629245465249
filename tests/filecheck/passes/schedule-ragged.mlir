// RUN: mg-opt --plan="tiles=written online-softmax=false" %unpromoted %s | filecheck %s
// RUN: mg-opt --plan="tiles=written online-softmax=false" %unpromoted -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: mg-opt --plan="tiles=written online-softmax=false" %unpromoted %s | sed 's/ within \[0\]//' | not mg-opt 2>&1 | filecheck %s --check-prefix UNCHECKED
// A ragged tile is copied within the tensor; outputs with fordim are stored in the loop.

// Slices of 10 rows of 38, 8 columns in each iteration; a row of the padded tensor is 16-byte aligned.
// CHECK: sched.prologue {
// CHECK: sched.copy async %x_tile to %s by <64, vector 8, order [1, 0]> iteration 0 within [0]
// CHECK: sched.forloop 5 carrying
// CHECK: sched.wait
// CHECK-NEXT: sched.barrier
// CHECK: sched.map exp %s to %e
// CHECK-NEXT: sched.barrier
// CHECK-NEXT: sched.copy %e to %o_tile by <64, vector 8, order [1, 0]> within [0]
// CHECK-NEXT: sched.yield
// CHECK-NEXT: }
// CUDA: tb::CopyAsyncWithin<64, 8, Target, Source, mugraph::Along<8, 10>>::run(s, x_tile, thread, tb::existing<38, 10, 10>(blockIdx.y, 0));
// CUDA: tb::CopyWithin<64, 8, Target, Source, mugraph::Along<8, 10>>::store(o_tile + it * 8, e, thread, tb::existing<38, 10, 10>(blockIdx.y, 0));
// UNCHECKED: 'sched.copy' of %x_tile copies a tile that is ragged along dimension 0: some of its elements lie outside of the tensor; say 'within [0]'
func.func @each(%t: tensor<38x40xf16>) -> tensor<38x40xf16> {
  %o = kn.customized %t grid [1, 4, 1] block [64, 1, 1] forloop 5 plan <loads = cp_async> {
  ^bb0(%x: tensor<38x40xf16>):
    %s = tb.input %x imap [-1, 0, -1] fordim 1 : tensor<38x40xf16> -> !tb.stensor<10x8xf16>
    %e = tb.exp %s : !tb.stensor<10x8xf16> -> !tb.stensor<10x8xf16>
    tb.output %e omap [-1, 0, -1] fordim 1 : !tb.stensor<10x8xf16> -> tensor<38x40xf16>
  } : (tensor<38x40xf16>) -> tensor<38x40xf16>
  func.return %o : tensor<38x40xf16>
}
