// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// CHECK: sched.kernel @all inputs 1 grid [2, 1, 1] block [32, 1, 1] smem 2048 {
// CHECK-NEXT: ^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
// GENERIC: "sched.kernel"() <{sym_name = "all", inputs = 1 : i64, grid = array<i64: 2, 1, 1>, block = array<i64: 32, 1, 1>, smem = 2048 : i64}>
sched.kernel @all inputs 1 grid [2, 1, 1] block [32, 1, 1] smem 2048 {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  // CHECK: sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  // GENERIC: "sched.local_tile"(%x) <{map = array<i64: 0, -1, -1>, fordim = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}>
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  // CHECK: sched.local_tile %o map [0, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x64xf16, (8,64):(64,1)>
  %u = sched.local_tile %o map [0, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x64xf16, (8,64):(64,1)>
  // CHECK: sched.alloc stages 2 offset 128 : !sched.shared<8x16xf16, (8,16):(16,1)>
  // GENERIC: "sched.alloc"() <{stages = 2 : i64, offset = 128 : i64}>
  %a = sched.alloc stages 2 offset 128 : !sched.shared<8x16xf16, (8,16):(16,1)>
  // CHECK: sched.alloc : !sched.shared<8x64xf16, S<3,3,3> o (8,64):(64,1)>
  %w = sched.alloc : !sched.shared<8x64xf16, S<3,3,3> o (8,64):(64,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  %c = sched.alloc : !sched.shared<8x8xf16, (8,8):(8,1)>
  // CHECK: sched.alloc : !sched.tmem<8x8xf32, (8,8):(8,1)>
  %tmem = sched.alloc : !sched.tmem<8x8xf32, (8,8):(8,1)>
  // CHECK: sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %f = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  // CHECK: sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  %n = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  // CHECK: sched.prologue {
  %f_1 = sched.prologue {
    // CHECK: sched.copy async %t to %a by <32, vector 4, order [1, 0]> iteration 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    // GENERIC: "sched.copy"(%t, %a) <{asynchronous, partition = #sched.linear<32, vector 4, order [1, 0]>, iteration = 1 : i64}>
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> iteration 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    // CHECK: sched.commit
    sched.commit
    // CHECK: sched.fill %f with 0.000000e+00 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    %f_2 = sched.fill %f with 0.0 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.fill %b with 1.5 : !sched.shared<16x8xf16, (16,8):(8,1)>
    sched.yield %f_2 : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  } -> !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  // CHECK: sched.forloop 4 carrying
  %m_1, %n_1, %f_3 = sched.forloop 4 carrying %m, %n, %f_1 : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>> {
  ^bb0(%m_2: !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, %n_2: !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, %f_4: !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>):
    // CHECK: sched.wait pending 1
    sched.wait pending 1
    // CHECK: sched.barrier
    sched.barrier
    // CHECK: sched.copy %t to %a by <32, vector 8, order [1, 0]> ahead 1 :
    sched.copy %t to %a by <32, vector 8, order [1, 0]> ahead 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    // CHECK: sched.mma %a{{[_0-9]*}}, %b{{[_0-9]*}} to %m{{[_0-9]*}} ldmatrix [true, false] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x8xf16, (16,8):(8,1)> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
    %m_3 = sched.mma %a, %b to %m_2 ldmatrix [true, false] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x8xf16, (16,8):(8,1)> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
    // CHECK: sched.map identity %m{{[_0-9]*}} to %n{{[_0-9]*}} then [exp, accum] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
    %n_3 = sched.map identity %m_3 to %n_2 then [exp, accum] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
    // CHECK: sched.map square %a{{[_0-9]*}} to %f{{[_0-9]*}} then [accum] by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    // GENERIC: "sched.map"(%a{{[_0-9]*}}, %f{{[_0-9]*}}) <{function = #tb.function<square>, epilogue = #tb.epilogue<[accum]>, partition = #sched.linear<32, vector 4, order [1, 0]>}>
    %f_5 = sched.map square %a to %f_4 then [accum] by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
    // CHECK: sched.map mul_scalar(0.5) %a to %a by <32, vector 4, order [1, 0]> :
    sched.map mul_scalar(0.5) %a to %a by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    // CHECK: sched.map add %a, %a to %a then [silu, sqrt] by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.map add %a, %a to %a then [silu, sqrt] by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.yield %m_3, %n_3, %f_5 : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>, !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
  // CHECK: sched.epilogue {
  sched.epilogue {
    // CHECK: sched.store %m{{[_0-9]*}} to %c{{[_0-9]*}} then [mul_scalar(2.0)] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.shared<8x8xf16, (8,8):(8,1)>
    sched.store %m_1 to %c then [mul_scalar(2.0)] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.shared<8x8xf16, (8,8):(8,1)>
    // CHECK: sched.reduce %a to %c then [sqrt] dim 1 strided lanes 4 by <32, vector 1, order [0, 1]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>
    // GENERIC: "sched.reduce"(%a, %c) <{epilogue = #tb.epilogue<[sqrt]>, dim = 1 : i64, grouping = #sched<grouping strided>, lanes = 4 : i64
    sched.reduce %a to %c then [sqrt] dim 1 strided lanes 4 by <32, vector 1, order [0, 1]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>
    // CHECK: sched.move %c to %a at [0, 8] by <32, vector 8, order [1, 0]> : !sched.shared<8x8xf16, (8,8):(8,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    sched.move %c to %a at [0, 8] by <32, vector 8, order [1, 0]> : !sched.shared<8x8xf16, (8,8):(8,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    // CHECK: sched.fill %c with -inf : !sched.shared<8x8xf16, (8,8):(8,1)>
    // GENERIC: "sched.fill"(%c) <{value = 0xff800000 : f32}>
    sched.fill %c with -inf : !sched.shared<8x8xf16, (8,8):(8,1)>
    // CHECK: sched.reduce %a to %c difference %c then [accum] combine max dim 1 strided lanes 4 by <32, vector 1, order [0, 1]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>, !sched.shared<8x8xf16, (8,8):(8,1)>
    sched.reduce %a to %c difference %c then [accum] combine max dim 1 strided lanes 4 by <32, vector 1, order [0, 1]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>, !sched.shared<8x8xf16, (8,8):(8,1)>
    // CHECK: sched.reduce %a to %c dim 1 contiguous lanes 1
    sched.reduce %a to %c dim 1 contiguous lanes 1 by <32, vector 1, order [0, 1]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>
    // CHECK: sched.copy %w to %u by <32, vector 8, order [1, 0]> : !sched.shared<8x64xf16, S<3,3,3> o (8,64):(64,1)> to !sched.global<8x64xf16, (8,64):(64,1)>
    sched.copy %w to %u by <32, vector 8, order [1, 0]> : !sched.shared<8x64xf16, S<3,3,3> o (8,64):(64,1)> to !sched.global<8x64xf16, (8,64):(64,1)>
  }
}

// CHECK-LABEL: func.func @f
// CHECK: sched.launch @all %x workspace [-1] : (tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
// GENERIC: "sched.launch"(%x) <{kernel = @all, workspace = array<i64: -1>}>
func.func @f(%x: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>> {
  %o = sched.launch @all %x workspace [-1] : (tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
  func.return %o : tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
}
