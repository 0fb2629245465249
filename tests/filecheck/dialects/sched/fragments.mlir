// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt %s --print-op-generic | mg-opt | filecheck %s
// Fragments of products, of their rows and columns, and what is computed on them.

// CHECK-LABEL: sched.kernel @fragments
sched.kernel @fragments inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>, %o: !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>):
  %a = sched.alloc : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)>
  %b = sched.alloc : !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)>
  %f = sched.alloc : !sched.shared<1x16x1xf32, (1,16,1):(16,1,16)>
  %t = sched.tile %o map [-1, -1, -1] : !sched.global<1x32x16xf32, (1,32,16):(512,16,1)> -> !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>
  // CHECK: %p = sched.fragment : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %p = sched.fragment : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %q = sched.fragment : !sched.fragment<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  // CHECK: %r = sched.fragment : !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %r = sched.fragment : !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %d = sched.fragment : !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  // CHECK: %l = sched.fragment : !sched.fragment<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %l = sched.fragment : !sched.fragment<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  // CHECK: %c = sched.fragment : !sched.fragment<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  %c = sched.fragment : !sched.fragment<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    // CHECK: sched.load %a to %q ldmatrix true : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)> to !sched.fragment<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    sched.load %a to %q ldmatrix true : !sched.shared<1x32x16xf16, (1,32,16):(512,16,1)> to !sched.fragment<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.load %f to %c then [reciprocal] :
    sched.load %f to %c then [reciprocal] : !sched.shared<1x16x1xf32, (1,16,1):(16,1,16)> to !sched.fragment<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
  sched.forloop 1 {
    // CHECK: sched.mma %q, %b to %p ldmatrix [false, true] :
    sched.mma %q, %b to %p ldmatrix [false, true] : !sched.fragment<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)> to !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.reduce %p to %r difference %d then [accum] combine max dim 2 contiguous :
    sched.reduce %p to %r difference %d then [accum] combine max dim 2 contiguous : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map scaled_exp_difference(0.125) %p, %r to %p :
    sched.map scaled_exp_difference(0.125) %p, %r to %p : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.reduce %p to %l then [accum] dim 2 contiguous :
    sched.reduce %p to %l then [accum] dim 2 contiguous : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.fragment<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map mul %p, %c to %q :
    sched.map mul %p, %c to %q : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.fragment<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.fragment<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
  sched.epilogue {
    // CHECK: sched.reduce %l to %r dim 2 contiguous :
    sched.reduce %l to %r dim 2 contiguous : !sched.fragment<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
    // CHECK: sched.map div %p, %r to %p then [silu] :
    sched.map div %p, %r to %p then [silu] : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>, !sched.fragment<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
    // CHECK: sched.store %p to %t :
    sched.store %p to %t : !sched.fragment<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.global<1x32x16xf32, (1,32,16):(512,16,1)>
  }
}
