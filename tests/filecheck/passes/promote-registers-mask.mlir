// RUN: mg-opt --promote-registers %s | filecheck %s
// A mask of a product stays in the product's registers: each thread compares the columns that it holds.

// CHECK:      sched.forloop 2
// CHECK:        %[[SUMS:.*]] = sched.mma %q, %k to
// CHECK-NEXT:   %[[MASKED:.*]] = sched.mask %[[SUMS]] to %[[SUMS]] with -inf outside [#tb.ragged<dim 1, extent 100, step 128, blocks [1, 1, 1], tile 64, loop>] : !sched.tile<64x64xf32, #cute.tiled_mma<
// CHECK-NEXT:   %[[SCALED:.*]] = sched.map identity %[[MASKED]] to %[[MASKED]] then [mul_scalar(0.5)]
// CHECK-NEXT:   sched.reduce %[[SCALED]] to %m
sched.kernel @k inputs 2 grid [1, 1, 1] block [128, 1, 1] forloop 2 {
^bb0(%dq: !sched.global<64x32xf16, (64,32):(32,1)>, %dk: !sched.global<32x100xf16, (32,100):(104,1)>, %o: !sched.global<64x1xf32, (64,1):(1,64)>):
  %q = sched.alloc offset 0 : !sched.shared<64x32xf16, (64,32):(32,1)>
  %k = sched.alloc offset 4096 : !sched.shared<32x64xf16, (32,64):(64,1)>
  %s = sched.alloc offset 8192 : !sched.shared<64x64xf16, (64,64):(64,1)>
  %scaled = sched.alloc offset 16384 : !sched.shared<64x64xf16, (64,64):(64,1)>
  %m = sched.alloc offset 24576 : !sched.shared<64x1xf32, (64,1):(1,64)>
  %q_tile = sched.local_tile %dq map [-1, -1, -1] : !sched.global<64x32xf16, (64,32):(32,1)> -> !sched.global<64x32xf16, (64,32):(32,1)>
  %k_tile = sched.local_tile %dk map [-1, -1, -1] fordim 1 : !sched.global<32x100xf16, (32,100):(104,1)> -> !sched.global<32x64xf16, (32,64):(104,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<64x1xf32, (64,1):(1,64)> -> !sched.global<64x1xf32, (64,1):(1,64)>
  sched.prologue {
    sched.copy %q_tile to %q by <128, vector 8, order [1, 0]> iteration 0 : !sched.global<64x32xf16, (64,32):(32,1)> to !sched.shared<64x32xf16, (64,32):(32,1)>
    sched.fill %m with -inf : !sched.shared<64x1xf32, (64,1):(1,64)>
  }
  sched.forloop 2 {
    sched.copy %k_tile to %k by <128, vector 8, order [1, 0]> within [1] : !sched.global<32x64xf16, (32,64):(104,1)> to !sched.shared<32x64xf16, (32,64):(64,1)>
    %none = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
    %zeros = sched.fill %none with 0.0 : !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
    %sums = sched.mma %q, %k to %zeros ldmatrix [true, true] : !sched.shared<64x32xf16, (64,32):(32,1)>, !sched.shared<32x64xf16, (32,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
    sched.store %sums to %s : !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>> to !sched.shared<64x64xf16, (64,64):(64,1)>
    sched.mask %s to %scaled with -inf outside [#tb.ragged<dim 1, extent 100, step 128, blocks [1, 1, 1], tile 64, loop>] then [mul_scalar(0.5)] by <128, vector 8, order [1, 0]> : !sched.shared<64x64xf16, (64,64):(64,1)> to !sched.shared<64x64xf16, (64,64):(64,1)>
    sched.reduce %scaled to %m then [accum] combine max dim 1 contiguous lanes 2 by <128, vector 1, order [0, 1]> : !sched.shared<64x64xf16, (64,64):(64,1)> to !sched.shared<64x1xf32, (64,1):(1,64)>
  }
  sched.epilogue {
    sched.copy %m to %o_tile by <128, vector 4, order [0, 1]> : !sched.shared<64x1xf32, (64,1):(1,64)> to !sched.global<64x1xf32, (64,1):(1,64)>
  }
}
