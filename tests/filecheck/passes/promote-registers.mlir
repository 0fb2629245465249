// What only the threads that wrote it read stays in registers.
// RUN: mg-opt --decompose-threadblock --fuse-threadblock --resolve-layout --plan-dtensor-memory --lower-threadblock --promote-registers --pipeline-loads %s | filecheck %s
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile -t 'cuda{function=norms}' %s | filecheck %s --check-prefix NORMS
// RUN: mg-opt --plan="tiles=written online-softmax=false" --transpile -t 'cuda{function=softmax}' %s | filecheck %s --check-prefix SOFTMAX

// Two norms of a row that 16 warps share: one read and one write of each element, each norm by one
// number a warp, one barrier, and a division a thread.
// CHECK-LABEL: sched.kernel @norms_custom0
// CHECK:      sched.prologue {
// CHECK-NEXT:   sched.copy %dh_tile to %sh by <512, vector 8, order [1, 0]> iteration 0 : {{.*}} to !sched.tile<1x4096xf16, #sched.linear<512, vector 8, order [1, 0]>>
// CHECK-NEXT:   sched.copy %dx_tile to %sx by <512, vector 8, order [1, 0]> iteration 0
// CHECK:      sched.forloop 1 carrying
// CHECK:        sched.map square %sh{{[_0-9]*}} to %n{{[_0-9]*}}
// CHECK-NEXT:   sched.reduce %n{{[_0-9]*}} to %n_parts dim 1 contiguous parts 16 : {{.*}} #sched.linear<512, vector 8, order [1, 0]>> to !sched.shared<1x16xf32, (1,16):(16,1)>
// CHECK-NEXT:   sched.barrier
// CHECK:        sched.reduce %n_parts to %n{{[_0-9]*}} then [mul_scalar(0.000244140625), sqrt, reciprocal] dim 1 contiguous
// CHECK:        sched.map mul %sh{{[_0-9]*}}, %n{{[_0-9]*}} to %n{{[_0-9]*}} : 
// CHECK:        sched.map add %n{{[_0-9]*}}, %sx{{[_0-9]*}} to %s{{[_0-9]*}} : 
// CHECK:        sched.reduce %r{{[_0-9]*}} to %r_parts dim 1 contiguous parts 16
// CHECK-NEXT:   sched.barrier
// CHECK:        sched.reduce %r_parts to %r{{[_0-9]*}}
// CHECK-NOT:    sched.barrier
// CHECK:      sched.epilogue {
// CHECK-NEXT:   sched.copy %f{{[_0-9]*}} to %o_tile by <512, vector 8, order [1, 0]> : !sched.tile<1x4096xf32
// NORMS-LABEL: norms_custom0
// NORMS: tb::HeldCopy<512, 8, Tile>::load(sh, dh_tile, thread);
// NORMS: tb::ReduceRows<ops::Add, ops::Chain<>, tb::LinearRows<512, 8, 4096, 4096>>::write_parts<Target>(n_parts, n, thread);
// NORMS: __syncthreads();
// NORMS: tb::ReduceRows<ops::Add, ops::Chain<ops::MulScalar<0x39800000u>, ops::Sqrt, ops::Reciprocal>, {{.*}}>::assign_from<Source>(n_1, n_parts, thread);
// NORMS: tb::Map<ops::Mul, ops::Chain<>, 512, 8, 4096>::assign(n_2, thread, tb::in_registers<8>(sh), tb::in_rows<8, 1>(n_1));
// NORMS: tb::HeldCopy<512, 8, Tile>::store(o_tile, f, thread);
func.func @norms(%h: tensor<8x4096xf16>, %x: tensor<8x4096xf16>) -> tensor<8x4096xf16> {
  %o = kn.customized %h, %x grid [8, 1, 1] block [512, 1, 1] forloop 1 {
  ^bb0(%dh: tensor<8x4096xf16>, %dx: tensor<8x4096xf16>):
    %sh = tb.input %dh imap [0, -1, -1] : tensor<8x4096xf16> -> !tb.stensor<1x4096xf16>
    %sx = tb.input %dx imap [0, -1, -1] : tensor<8x4096xf16> -> !tb.stensor<1x4096xf16>
    %n = tb.rms_norm %sh : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %s = tb.add %n, %sx : (!tb.stensor<1x4096xf16>, !tb.stensor<1x4096xf16>) -> !tb.stensor<1x4096xf16>
    %r = tb.rms_norm %s : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    %f = tb.forloop_accum none %r : !tb.stensor<1x4096xf16> -> !tb.stensor<1x4096xf16>
    tb.output %f omap [0, -1, -1] : !tb.stensor<1x4096xf16> -> tensor<8x4096xf16>
  } : (tensor<8x4096xf16>, tensor<8x4096xf16>) -> tensor<8x4096xf16>
  func.return %o : tensor<8x4096xf16>
}

// Rows within a warp are summed by shuffles alone: no shared memory and no barrier is left.
// CHECK-LABEL: sched.kernel @softmax_custom0
// CHECK-NOT:  sched.alloc
// CHECK-NOT:  sched.barrier
// CHECK:      sched.reduce %e{{[_0-9]*}} to %u{{[_0-9]*}} then [reciprocal] dim 1 contiguous : {{.*}} to !sched.tile<16x1xf32, #sched.slice<16x128 dim 1 of #sched.linear<128, vector 8, order [1, 0]>>>
// CHECK-NOT:  sched.barrier
// CHECK:      func.func @softmax
// SOFTMAX-LABEL: softmax_custom0
// SOFTMAX: tb::ReduceRows<ops::Add, ops::Chain<ops::Reciprocal>, tb::LinearRows<128, 8, 2048, 128>>::assign(u, e, thread);
func.func @softmax(%x: tensor<64x128xf16>) -> tensor<64x128xf16> {
  %o = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x128xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x128xf16> -> !tb.stensor<16x128xf16>
    %e = tb.exp %sx : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf16>
    %u = tb.reduction %e dim 1 : !tb.stensor<16x128xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %e, %u : (!tb.stensor<16x128xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x128xf16>
    %a = tb.forloop_accum none %d : !tb.stensor<16x128xf16> -> !tb.stensor<16x128xf16>
    tb.output %a omap [0, -1, -1] : !tb.stensor<16x128xf16> -> tensor<64x128xf16>
  } : (tensor<64x128xf16>) -> tensor<64x128xf16>
  func.return %o : tensor<64x128xf16>
}

// Sums over columns cross threads: their buffer stays in shared memory.
// CHECK-LABEL: sched.kernel @columns_custom0
// CHECK:      sched.map square %sx{{[_0-9]*}} to %f :
// CHECK:      sched.barrier
// CHECK:      sched.reduce %f to %u dim 0
func.func @columns(%x: tensor<64x64xf16>) -> tensor<4x64xf16> {
  %o = kn.customized %x grid [4, 1, 1] block [64, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.square %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %f = tb.forloop_accum none %e : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %u = tb.reduction %f dim 0 : !tb.stensor<16x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %u omap [0, -1, -1] : !tb.stensor<1x64xf16> -> tensor<4x64xf16>
  } : (tensor<64x64xf16>) -> tensor<4x64xf16>
  func.return %o : tensor<4x64xf16>
}
