// RUN: mg-opt -p "plan,fuse-threadblock,resolve-layout,plan-dtensor-memory,lower-threadblock,promote-registers,pipeline-loads,pipeline-products,persist-blocks{blocks=2},bulk-stores,plan-swizzle,lower-rings,plan-stensor-memory,set-register-budgets,check-hazards" %s | mg-opt -t cuda | filecheck %s

// Persistent blocks with a ring for each of two products. That of three stages has room for all iterations of a work tile, so
// that the producer fills it before its loop, which is of the other ring alone. Both go on to the next work tile all the same.

// CHECK: tb::Channel<3> const ring(
// CHECK: tb::Channel<2> const ring_1(
// CHECK: sched.role "consumers"
// CHECK: tb::Stage<2> first_stage = 0;
// CHECK-NEXT: tb::Stage<3> first_stage_1 = 0;
// CHECK-NEXT: #pragma unroll 1
// CHECK-NEXT: for (int place = blockIdx.x; place < 4; place += 2, first_stage += 3, first_stage_1 += 3) {
// CHECK: tb::Stage<2> stage = first_stage;
// CHECK-NEXT: tb::Stage<3> stage_1 = first_stage_1;
// CHECK-NEXT: #pragma unroll 1
// CHECK-NEXT: for (int it = 0; it < 3; ++it, ++stage, ++stage_1) {
// CHECK-NEXT: ring.consume(stage_1);
// CHECK: ring_1.consume(stage);
// CHECK: if (it - 1 >= 0) ring.release(stage_1 - 1, thread);
// CHECK-NEXT: if (it - 1 >= 0) ring_1.release(stage - 1, thread);
// CHECK: ring.release(first_stage_1 + 2, thread);
// CHECK-NEXT: ring_1.release(first_stage + 2, thread);
// CHECK: sched.role "producer"
// CHECK: for (int place = blockIdx.x; place < 4; place += 2, first_stage += 3, first_stage_1 += 3) {
// CHECK: ring.acquire(first_stage_1);
// CHECK: ring_1.acquire(first_stage);
// CHECK: ring.publish(first_stage_1 + 2, 24576);
// CHECK: tb::Stage<2> stage = first_stage;
// CHECK-NEXT: #pragma unroll 1
// CHECK-NEXT: for (int it = 0; it < 3; ++it, ++stage) {
// CHECK-NEXT: if (it + 2 < 3) ring_1.acquire(stage + 2);
// CHECK-NOT: ring.
func.func @gated(%x0: tensor<128x192xf16>, %w0: tensor<192x256xf16>, %x1: tensor<128x480xf16>, %w1: tensor<480x256xf16>) -> tensor<128x256xf16> {
  %o = kn.customized %x0, %w0, %x1, %w1 grid [4, 1, 1] block [256, 1, 1] forloop 3
      plan <tiles = written, loads = tma, stages = [3, 2], persistent = true> {
  ^bb0(%dx0: tensor<128x192xf16>, %dw0: tensor<192x256xf16>, %dx1: tensor<128x480xf16>, %dw1: tensor<480x256xf16>):
    %sx0 = tb.input %dx0 imap [-1, -1, -1] fordim 1 : tensor<128x192xf16> -> !tb.stensor<128x64xf16>
    %sw0 = tb.input %dw0 imap [1, -1, -1] fordim 0 : tensor<192x256xf16> -> !tb.stensor<64x64xf16>
    %m0 = tb.matmul %sx0, %sw0 : (!tb.stensor<128x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<128x64xf16>
    %a0 = tb.forloop_accum none %m0 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %sx1 = tb.input %dx1 imap [-1, -1, -1] fordim 1 : tensor<128x480xf16> -> !tb.stensor<128x160xf16>
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : tensor<480x256xf16> -> !tb.stensor<160x64xf16>
    %m1 = tb.matmul %sx1, %sw1 : (!tb.stensor<128x160xf16>, !tb.stensor<160x64xf16>) -> !tb.stensor<128x64xf16>
    %a1 = tb.forloop_accum none %m1 : !tb.stensor<128x64xf16> -> !tb.stensor<128x64xf16>
    %s1 = tb.mul %a0, %a1 : (!tb.stensor<128x64xf16>, !tb.stensor<128x64xf16>) -> !tb.stensor<128x64xf16>
    tb.output %s1 omap [1, -1, -1] : !tb.stensor<128x64xf16> -> tensor<128x256xf16>
  } : (tensor<128x192xf16>, tensor<192x256xf16>, tensor<128x480xf16>, tensor<480x256xf16>) -> tensor<128x256xf16>
  func.return %o : tensor<128x256xf16>
}
