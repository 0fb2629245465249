// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// CHECK: func.func @f(%A: !te.buffer<64x32xf16>, %B: !te.buffer<64xf32, (64):(2), shared>, %C: !te.buffer<4096xf32> {te.result}) {
func.func @f(%A: !te.buffer<64x32xf16>, %B: !te.buffer<64xf32, (64):(2), shared>, %C: !te.buffer<4096xf32> {te.result}) {
  // CHECK-NEXT: te.par %i = 64 grid {
  // GENERIC: "te.par"() <{extent = 64 : i64, level = "grid"}>
  te.par %i = 64 grid {
    // CHECK-NEXT: te.par %j = 32 fully align 32 block {
    // GENERIC: "te.par"() <{extent = 32 : i64, fully, alignment = 32 : i64, level = "block"}>
    te.par %j = 32 fully align 32 block {
      // CHECK-NEXT: te.seq %k = 4 {
      te.seq %k = 4 {
        // CHECK-NEXT: %a = te.view %A[%i, %k * 8 + (%j + %k) mod 4 - %j floordiv 2 * 3 + 5] : !te.buffer<64x32xf16>
        %a = te.view %A[%i, 8 * %k + (%j + %k) mod 4 - %j floordiv 2 * 3 + 5] : !te.buffer<64x32xf16>
        %x = arith.extf %a : f16 to f32
        // CHECK: te.if %i - 1 >= 0, (%j + %k) mod 2 == 0 {
        te.if %i - 1 >= 0, (%j + %k) mod 2 == 0 {
          // CHECK-NEXT: te.bind %x, %C[%i * 64 + %j] : !te.buffer<4096xf32>
          te.bind %x, %C[%i * 64 + %j] : !te.buffer<4096xf32>
        }
        // CHECK: te.red add %x, %B[63 - %i] : !te.buffer<64xf32, (64):(2), shared>
        te.red add %x, %B[63 - %i] : !te.buffer<64xf32, (64):(2), shared>
        // CHECK-NEXT: %o = te.atomic max %x, %B[0] : !te.buffer<64xf32, (64):(2), shared>
        %o = te.atomic max %x, %B[0] : !te.buffer<64xf32, (64):(2), shared>
        // CHECK-NEXT: te.anchor %o : f32
        te.anchor %o : f32
        // CHECK-NEXT: %n = te.index %i * 3 + 1
        %n = te.index %i * 3 + 1
      }
      // CHECK: %r = te.new : !te.buffer<2x4xf16, register>
      %r = te.new : !te.buffer<2x4xf16, register>
      %v = te.view %A[%i, %j] : !te.buffer<64x32xf16>
      // CHECK: te.asm "cvt.f32.f16 %0, %1;" out %r, in %v : !te.buffer<2x4xf16, register>, f16
      te.asm "cvt.f32.f16 %0, %1;" out %r, in %v : !te.buffer<2x4xf16, register>, f16
      // CHECK-NEXT: te.asm "bar.warp.sync 0xffffffff;"
      te.asm "bar.warp.sync 0xffffffff;"
    }
    // CHECK: %s = te.section %A[%i floordiv 16 * 16, 0] : !te.buffer<64x32xf16> -> !te.buffer<16x32xf16, (16,32):(32,1)>
    %s = te.section %A[%i floordiv 16 * 16, 0] : !te.buffer<64x32xf16> -> !te.buffer<16x32xf16, (16,32):(32,1)>
    // CHECK-NEXT: te.call @g(%s) : !te.buffer<16x32xf16, (16,32):(32,1)>
    te.call @g(%s) : !te.buffer<16x32xf16, (16,32):(32,1)>
  }
  func.return
}

// CHECK-LABEL: func.func @asynchronous
func.func @asynchronous(%a: !te.buffer<64x32xf16>) {
  te.kernel "k" %block = 1 smem 1024 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<2x256xf16, shared>
    te.threads %thread = 32 {
      // CHECK: te.seq %i = 8 prefetch 1 {
      te.seq %i = 8 prefetch 1 {
        te.step "copy" {
          // CHECK: te.copy_async 8, %a[%i * 8, %thread] : !te.buffer<64x32xf16> to %t[%i mod 2, %thread * 8] {x = 1 : i64} : !te.buffer<2x256xf16, shared>
          te.copy_async 8, %a[%i * 8, %thread] : !te.buffer<64x32xf16> to %t[%i mod 2, %thread * 8] {x = 1 : i64} : !te.buffer<2x256xf16, shared>
          // CHECK-NEXT: te.copy_async_or_zero 8, %a[%i * 8, %thread] : !te.buffer<64x32xf16> to %t[%i mod 2, %thread * 8] : !te.buffer<2x256xf16, shared> if 6 - %i >= 0, %thread mod 2 == 0 {x = 1 : i64}
          te.copy_async_or_zero 8, %a[%i * 8, %thread] : !te.buffer<64x32xf16> to %t[%i mod 2, %thread * 8] : !te.buffer<2x256xf16, shared> if 6 - %i >= 0, %thread mod 2 == 0 {x = 1 : i64}
        }
        // CHECK: te.commit
        te.commit
        // CHECK-NEXT: te.wait 1
        te.wait 1
      }
    }
  }
  func.return
}

// CHECK-LABEL: func.func @by_turns
func.func @by_turns(%a: !te.buffer<64x64xf16>, %c: !te.buffer<64x64xf16>) {
  te.kernel "k" %block = 1 smem 16400 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
    // CHECK: %full = te.new_mbarriers {te.offset = 16384 : i64} : !te.mbarriers<2>
    %full = te.new_mbarriers {te.offset = 16384 : i64} : !te.mbarriers<2>
    te.threads %thread = 128 {
      %s = te.new {te.of_each_thread} : !te.buffer<32xf32, register>
      te.seq %i = 8 {
        te.step "load" {
          // CHECK: te.mbarrier_init %full[%i mod 2], 1 : !te.mbarriers<2>
          te.mbarrier_init %full[%i mod 2], 1 : !te.mbarriers<2>
          // CHECK-NEXT: te.mbarrier_fence
          te.mbarrier_fence
          // CHECK-NEXT: te.mbarrier_arrive %full[0] expect 8192 : !te.mbarriers<2>
          te.mbarrier_arrive %full[0] expect 8192 : !te.mbarriers<2>
          // CHECK-NEXT: te.mbarrier_arrive %full[1] : !te.mbarriers<2>
          te.mbarrier_arrive %full[1] : !te.mbarriers<2>
          // CHECK-NEXT: te.bulk_load [64, 64], %a[0, 0] : !te.buffer<64x64xf16> to %t[0] : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared> on %full[%i mod 2] : !te.mbarriers<2>
          te.bulk_load [64, 64], %a[0, 0] : !te.buffer<64x64xf16> to %t[0] : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared> on %full[%i mod 2] : !te.mbarriers<2>
          // CHECK-NEXT: te.mbarrier_wait %full[%i mod 2] parity [%i floordiv 2 mod 2] : !te.mbarriers<2>
          te.mbarrier_wait %full[%i mod 2] parity [%i floordiv 2 mod 2] : !te.mbarriers<2>
          // CHECK-NEXT: te.barrier warp
          te.barrier warp
          // CHECK-NEXT: te.named_barrier 1, 128
          te.named_barrier 1, 128
          // CHECK-NEXT: te.warpgroup_fence for %s : !te.buffer<32xf32, register>
          te.warpgroup_fence for %s : !te.buffer<32xf32, register>
          // CHECK-NEXT: te.warpgroup_mma "SM90_64x64x16_F32F16F16_SS" %s, %t[0] <(64,16):(64,1)>, %t[16] <(64,16):(64,1)> :
          te.warpgroup_mma "SM90_64x64x16_F32F16F16_SS" %s, %t[0] <(64,16):(64,1)>, %t[16] <(64,16):(64,1)> : !te.buffer<32xf32, register>, !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>, !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
          // CHECK-NEXT: te.warpgroup_commit
          te.warpgroup_commit
          // CHECK-NEXT: te.warpgroup_wait 1
          te.warpgroup_wait 1
          // CHECK-NEXT: te.warpgroup_wait 0 for %s : !te.buffer<32xf32, register>
          te.warpgroup_wait 0 for %s : !te.buffer<32xf32, register>
          // CHECK-NEXT: te.proxy_fence
          te.proxy_fence
          // CHECK-NEXT: te.bulk_store [64, 64], %c[0, 0] : !te.buffer<64x64xf16> from %t[0] : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
          te.bulk_store [64, 64], %c[0, 0] : !te.buffer<64x64xf16> from %t[0] : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
          // CHECK-NEXT: te.bulk_commit
          te.bulk_commit
          // CHECK-NEXT: te.bulk_wait 0
          te.bulk_wait 0
        }
      }
    }
  }
  func.return
}

// CHECK: func.func @hand_over
func.func @hand_over(%p: !te.buffer<4xi32>, %x: !te.buffer<4xf8E4M3FN>, %y: !te.buffer<4xi8>) {
  te.par %block = 2 grid {
    // CHECK: %full = te.new_mbarriers arrivals 32 : !te.mbarriers<2>
    %full = te.new_mbarriers arrivals 32 : !te.mbarriers<2>
    te.par %t = 32 fully {
      // CHECK: %a = te.mbarrier_address %full[%block mod 2] : !te.mbarriers<2>
      %a = te.mbarrier_address %full[%block mod 2] : !te.mbarriers<2>
      // CHECK-NEXT: te.asm "mbarrier.arrive.shared.b64 _, [%0];" in %a : i32 means {
      // CHECK-NEXT:   te.mbarrier_arrive %full[%block mod 2] : !te.mbarriers<2>
      // CHECK-NEXT: }
      te.asm "mbarrier.arrive.shared.b64 _, [%0];" in %a : i32 means {
        te.mbarrier_arrive %full[%block mod 2] : !te.mbarriers<2>
      }
      te.mbarrier_wait %full[%block mod 2] parity [0] : !te.mbarriers<2>
    }
  }
  te.par %i = 4 {
    %v = te.view %p[%i] : !te.buffer<4xi32>
    // CHECK: %k = te.index_of %v below 4
    %k = te.index_of %v below 4
    // CHECK-NEXT: %w = te.view %x[%k] : !te.buffer<4xf8E4M3FN>
    %w = te.view %x[%k] : !te.buffer<4xf8E4M3FN>
    %c = arith.constant 1 : i8
    // CHECK: te.bind %c, %y[%k] {te.distinct} : !te.buffer<4xi8>
    te.bind %c, %y[%k] {te.distinct} : !te.buffer<4xi8>
  }
  func.return
}

func.func private @g(%a: !te.buffer<16x32xf16>) {
  func.return
}
