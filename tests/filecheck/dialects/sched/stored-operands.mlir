// A right matrix that is made of narrower elements, and a left one that is one of several.
// RUN: mg-opt %s | mg-opt -f mlir | filecheck %s

sched.kernel @f inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 1152 forloop 1 {
  %a = sched.alloc offset 0 : !sched.shared<2x16x16xbf16, (2,16,16):(256,16,1)>
  %b = sched.alloc offset 1024 : !sched.shared<1x16x8xi8, (1,16,8):(128,1,16)>
  %m = sched.empty : !sched.tile<1x16x8xf32, #cute.tiled_mma<SM80_16x8x16_F32BF16BF16F32_TN, (1,1,1)>>
  sched.prologue {
    // CHECK: sched.mma %a from [1, 0, 0], %b to %m ldmatrix [true, false] through [bits(4.0, 4.0), add_scalar(-8.0)] :
    sched.mma %a from [1, 0, 0], %b to %m ldmatrix [true, false] through [bits(4.0, 4.0), add_scalar(-8.0)] : !sched.shared<2x16x16xbf16, (2,16,16):(256,16,1)>, !sched.shared<1x16x8xi8, (1,16,8):(128,1,16)> to !sched.tile<1x16x8xf32, #cute.tiled_mma<SM80_16x8x16_F32BF16BF16F32_TN, (1,1,1)>>
  }
}
