// RUN: mg-opt %S/../../passes/Inputs/warpgroup-matmul.mlir | mg-opt | filecheck %s
// RUN: mg-opt --split-input-file --verify-diagnostics %s | filecheck %s --check-prefix=INVALID

// CHECK:       sched.consume %ring
// CHECK-NEXT:  %[[SUM:[a-z0-9_]+]] = sched.warpgroup_mma async %sa, %sb to %{{[a-z0-9_]+}} :
// CHECK-NEXT:  sched.warpgroup_wait pending 1
// CHECK-NEXT:  sched.release %ring ahead -1

sched.kernel @not_of_warp_groups inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %a = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
  %m_1 = sched.warpgroup_mma %a, %a to %m : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m: the accumulator must be a fragment with a #cute.tiled_mma of an instruction of warp groups, SM90_64x...,

// -----

sched.kernel @no_descriptor inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %a = sched.alloc : !sched.shared<64x64xf16, (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
  %m_2 = sched.warpgroup_mma %a, %a to %m : !sched.shared<64x64xf16, (64,64):(64,1)>, !sched.shared<64x64xf16, (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m cannot read %a ((64,64):(64,1)): rows of 128 bytes must be swizzled by S<3,3,3>

// -----

sched.kernel @left_in_registers inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %a = sched.empty : !sched.tile<64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>
  %b = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
  %m_3 = sched.warpgroup_mma %a, %b to %m : !sched.tile<64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (4,1,1)>>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m: %a is in registers, from which SM90_64x64x16_F32F16F16_SS does not take its left matrix; expected one of SM90_..._RS

// -----

sched.kernel @held_otherwise inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %a = sched.empty : !sched.tile<64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>>
  %b = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_RS, (1,1,1)>>
  %m_4 = sched.warpgroup_mma %a, %b to %m : !sched.tile<64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>>, !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_RS, (1,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m: threads do not hold %a (!sched.tile<64x64xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>>) as 1 groups along m of SM90_64x64x16_F32F16F16_RS take it

// -----

sched.kernel @two_accumulators_of_one_width inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %a = sched.alloc : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>
  %b = sched.alloc : !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))>
  %m = sched.empty : !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
  %n = sched.empty : !sched.tile<64x32xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
  %m_5, %n_1 = sched.warpgroup_mma %a, %b to %m, %n : !sched.shared<64x64xf16, S<3,3,3> o (64,64):(64,1)>, !sched.shared<64x128xf16, S<3,3,3> o (64,(64,2)):(64,(1,4096))> to !sched.tile<64x64xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>, !sched.tile<64x32xf32, #cute.tiled_mma<SM90_64x64x16_F32F16F16_SS, (1,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m: two accumulators are different fragments of one type, and the left matrix lies in shared memory

// -----

sched.kernel @converted inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<8x64xbf16, (8,64):(64,1)>):
  %a = sched.alloc : !sched.shared<2x8x64xbf16, S<3,3,3> o (2,8,64):(512,64,1)>
  %w = sched.alloc : !sched.shared<1x64x64xi8, S<2,4,3> o (1,64,64):(4096,1,64)>
  %m = sched.empty : !sched.tile<1x8x64xf32, #cute.tiled_mma<SM90_8x64x16_F32BF16BF16_SWAPPED_RS, (1,1,1)>>
  %m_6 = sched.warpgroup_mma fresh %a from [1, 0, 0], %w to %m through [bits(0.0, 4.0)] : !sched.shared<2x8x64xbf16, S<3,3,3> o (2,8,64):(512,64,1)>, !sched.shared<1x64x64xi8, S<2,4,3> o (1,64,64):(4096,1,64)> to !sched.tile<1x8x64xf32, #cute.tiled_mma<SM90_8x64x16_F32BF16BF16_SWAPPED_RS, (1,1,1)>>
}
// INVALID: sched.warpgroup_mma fresh %a from [1, 0, 0], %w to %m through [bits(0.0, 4.0)] :

// -----

sched.kernel @converted_from_memory inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<8x64xbf16, (8,64):(64,1)>):
  %a = sched.alloc : !sched.shared<1x8x64xbf16, S<3,3,3> o (1,8,64):(512,64,1)>
  %w = sched.alloc : !sched.shared<1x64x64xi8, S<2,4,3> o (1,64,64):(4096,1,64)>
  %m = sched.empty : !sched.tile<1x8x64xf32, #cute.tiled_mma<SM90_8x64x16_F32BF16BF16_SWAPPED, (1,1,1)>>
  %m_7 = sched.warpgroup_mma %a, %w to %m through [bits(0.0, 4.0)] : !sched.shared<1x8x64xbf16, S<3,3,3> o (1,8,64):(512,64,1)>, !sched.shared<1x64x64xi8, S<2,4,3> o (1,64,64):(4096,1,64)> to !sched.tile<1x8x64xf32, #cute.tiled_mma<SM90_8x64x16_F32BF16BF16_SWAPPED, (1,1,1)>>
}
// INVALID: 'sched.warpgroup_mma' %m: SM90_8x64x16_F32BF16BF16_SWAPPED takes its right matrix from shared memory; write 'through' with an instruction of ..._SWAPPED_RS alone
