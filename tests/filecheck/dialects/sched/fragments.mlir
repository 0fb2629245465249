// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt %s --print-op-generic | mg-opt | filecheck %s
// Fragments of products, of their rows and columns, and what is computed on them.

// CHECK-LABEL: sched.kernel @fragments
sched.kernel @fragments inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>, %o: !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>):
  %a = sched.alloc : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)>
  %b = sched.alloc : !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)>
  %f = sched.alloc : !sched.shared<1x16x1xf32, (1,16,1):(16,1,16)>
  %t = sched.local_tile %o map [-1, -1, -1] : !sched.global<1x32x16xf32, (1,32,16):(512,16,1)> -> !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>
  // CHECK: %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %q = sched.empty : !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  // CHECK: %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %d = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  // CHECK: %l = sched.empty : !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %l = sched.empty : !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  // CHECK: %c = sched.empty : !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %c = sched.empty : !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %q_1, %c_1 = sched.prologue {
    // CHECK: sched.load %a to %{{[a-z0-9_]+}} ldmatrix true : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)> to !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    %q_2 = sched.load %a to %q ldmatrix true : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)> to !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.load %f to %{{[a-z0-9_]+}} then [reciprocal] :
    %c_2 = sched.load %f to %c then [reciprocal] : !sched.shared<1x16x1xf32, (1,16,1):(16,1,16)> to !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    sched.yield %q_2, %c_2 : !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  } -> !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %p_1, %r_1, %d_1, %l_1, %q_3 = sched.forloop 1 carrying %p, %r, %d, %l, %q_1 : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> {
  ^bb0(%p_2: !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, %r_2: !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, %d_2: !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, %l_2: !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, %q_4: !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>):
    // CHECK: sched.mma %{{[a-z0-9_]+}}, %b to %{{[a-z0-9_]+}} ldmatrix [false, true] :
    %p_3 = sched.mma %q_4, %b to %p_2 ldmatrix [false, true] : !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.reduce %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} difference %{{[a-z0-9_]+}} then [accum] combine max dim 2 contiguous :
    %r_3, %d_3 = sched.reduce %p_3 to %r_2 difference %d_2 then [accum] combine max dim 2 contiguous : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map scaled_exp_difference(0.125) %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} :
    %p_4 = sched.map scaled_exp_difference(0.125) %p_3, %r_3 to %p_3 : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.reduce %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} then [accum] dim 2 contiguous :
    %l_3 = sched.reduce %p_4 to %l_2 then [accum] dim 2 contiguous : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map mul %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} :
    %q_5 = sched.map mul %p_4, %c_1 to %q_4 : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    sched.yield %p_4, %r_3, %d_3, %l_3, %q_5 : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
  sched.epilogue {
    // CHECK: sched.reduce %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} dim 2 contiguous :
    %r_5 = sched.reduce %l_1 to %r_1 dim 2 contiguous : !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map div %{{[a-z0-9_]+}}, %{{[a-z0-9_]+}} to %{{[a-z0-9_]+}} then [silu] :
    %p_6 = sched.map div %p_1, %r_5 to %p_1 then [silu] : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.store %{{[a-z0-9_]+}} to %t :
    sched.store %p_6 to %t : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>
  }
}
