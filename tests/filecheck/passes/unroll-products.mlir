// Sums of f8 are added up with more bits in each iteration; the next product is issued before. Four iterations are a
// body, whose last product is waited for in it.
// RUN: mg-opt --plan="tiles=written loads=tma" --transpile=arch=sm_90a %s -o %t.mlir
// RUN: filecheck %s < %t.mlir
// RUN: mg-opt -t cuda %t.mlir | filecheck %s --check-prefix CUDA
// RUN: mg-run --check %t.mlir | filecheck %s --check-prefix VALUES
// RUN: mg-opt --plan="tiles=written loads=tma stages=3" --transpile=arch=sm_90a %s | filecheck %s --check-prefix SHORT

// VALUES: check: output 0, 128x128 bfloat16: relative error {{.*}} against float64, within

// CHECK: sched.forloop 64 step 4 carrying
// CHECK: sched.consume %ring{{$}}
// CHECK-NEXT: sched.warpgroup_mma async fresh %tx, %tw to %{{[a_0-9]*}} :
// CHECK: sched.consume %ring ahead 1
// CHECK-NEXT: sched.warpgroup_mma async fresh %tx, %tw to %{{[a_0-9]*}} ahead 1 :
// CHECK-NEXT: sched.warpgroup_wait pending 1 for
// CHECK-NEXT: sched.release %ring{{$}}
// CHECK-NEXT: sched.map identity
// CHECK: sched.consume %ring ahead 3
// CHECK: sched.warpgroup_wait pending 1 for
// CHECK-NEXT: sched.release %ring ahead 2
// CHECK: sched.warpgroup_wait pending 0 for
// CHECK-NEXT: sched.release %ring ahead 3
// CHECK-NEXT: sched.map identity
// CHECK-NEXT: sched.yield

// Stages are counted on where each of them begins to read.
// CUDA: for (int it = 0; it < 64; it += 4, ++stage) {
// CUDA-COUNT-3: ++stage;
// CUDA: ring.consume(stage);

// With three stages too few tiles would be on their way beside the two products.
// SHORT: sched.forloop 64 carrying
// SHORT: sched.warpgroup_mma fresh %tx, %tw to
func.func @added(%x: tensor<128x2048xf8E4M3FN>, %w: tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>) -> tensor<128x128xbf16> {
  %o = kn.customized %x, %w grid [1, 1, 1] block [256, 1, 1] forloop 64 {
  ^bb0(%dx: tensor<128x2048xf8E4M3FN>, %dw: tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>):
    %tx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<128x2048xf8E4M3FN> -> !tb.stensor<128x32xf8E4M3FN>
    %tw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>> -> !tb.stensor<32x128xf8E4M3FN>
    %m = tb.matmul %tx, %tw : (!tb.stensor<128x32xf8E4M3FN>, !tb.stensor<32x128xf8E4M3FN>) -> !tb.stensor<128x128xf32>
    %a = tb.forloop_accum none %m : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xf32>
    %c = tb.cast %a : !tb.stensor<128x128xf32> -> !tb.stensor<128x128xbf16>
    tb.output %c omap [-1, -1, -1] : !tb.stensor<128x128xbf16> -> tensor<128x128xbf16>
  } : (tensor<128x2048xf8E4M3FN>, tensor<2048x128xf8E4M3FN, #cute.layout<(2048,128):(1,2048)>>) -> tensor<128x128xbf16>
  func.return %o : tensor<128x128xbf16>
}
