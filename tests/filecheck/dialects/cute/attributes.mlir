// RUN: mg-opt %s | filecheck %s
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt %s --print-op-generic | mg-opt | filecheck %s

"test.op"() {
  // CHECK: dense = #cute.layout<(16,4096):(4096,1)>
  dense = #cute.layout<(16,4096):(4096,1)>,
  // CHECK-SAME: nested = #cute.layout<((2,4),(8,2)):((8,64),(1,16))>
  nested = #cute.layout<((2,4),(8,2)) : ((8, 64), (1, 16))>,
  // CHECK-SAME: one_mode = #cute.layout<8:-2>
  one_mode = #cute.layout<8:-2>,
  // CHECK-SAME: tuple_of_one = #cute.layout<(8):(0)>
  tuple_of_one = #cute.layout<(8):(0)>,
  // CHECK-SAME: swizzled = #cute.layout<S<3,3,3> o (8,64):(64,1)>
  swizzled = #cute.layout<S<3,3,3> o (8,64):(64,1)>,
  // CHECK-SAME: with_offset = #cute.layout<S<2,3,-3> o 8 o (4,8):(8,1)>
  with_offset = #cute.layout<S<2,3,-3> o 8 o (4,8):(8,1)>,
  // CHECK-SAME: swizzled_mode = #cute.layout<S<1,2,3> o 16:1>
  swizzled_mode = #cute.layout<S<1,2,3> o 16:1>,
  // CHECK-SAME: encoded = tensor<16x4096xf16, #cute.layout<(16,4096):(4096,1)>>
  encoded = tensor<16x4096xf16, #cute.layout<(16,4096):(4096,1)>>,
  // CHECK-SAME: mma = #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>
  mma = #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>,
  // CHECK-SAME: instruction = #cute.mma_atom<SM80_16x8x16_F32F16F16F32_TN>
  instruction = #cute.mma_atom<SM80_16x8x16_F32F16F16F32_TN>,
  // CHECK-SAME: load = #cute.copy_atom<SM75_U32x4_LDSM_N>
  load = #cute.copy_atom<SM75_U32x4_LDSM_N>,
  // CHECK-SAME: one_atom = #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>
  one_atom = #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS>
} : () -> ()
