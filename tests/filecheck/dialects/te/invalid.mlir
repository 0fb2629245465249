// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: !te.buffer: elements are f16, bf16, f32, f64, i32, i8, u8, f8e4m3, f8e5m2, bool, not i16
func.func @f(%A: !te.buffer<4xi16>) { func.return }

// -----

// CHECK: !te.buffer: there must be at least one extent, and each at least 1
func.func @f(%A: !te.buffer<4x0xf32>) { func.return }

// -----

// CHECK: 'te.view': 2 indices of a buffer of 4x4x4; expected 3, or 1 in row-major order
func.func @f(%A: !te.buffer<4x4x4xf32>, %B: !te.buffer<4xf32>) {
  te.par %i = 4 {
    %a = te.view %A[%i, %i] : !te.buffer<4x4x4xf32>
  }
  func.return
}

// -----

// CHECK: a product of two variables is not quasi-affine; one factor must be a constant
func.func @f(%A: !te.buffer<4xf32>) {
  te.par %i = 4 {
    %a = te.view %A[%i * %i] : !te.buffer<4xf32>
  }
  func.return
}

// -----

// CHECK: the divisor of an index must be a positive constant
func.func @f(%A: !te.buffer<4xf32>) {
  te.par %i = 4 {
    %a = te.view %A[%i mod 0] : !te.buffer<4xf32>
  }
  func.return
}

// -----

// CHECK: 'te.seq' runs 0 times; it must be 1 or more
func.func @f() {
  te.seq %i = 0 { }
  func.return
}

// -----

// CHECK: 'te.par': no fully parallel loop may stand in another
func.func @f() {
  te.par %i = 4 fully { te.par %j = 4 fully { } }
  func.return
}

// -----

// CHECK: 'te.par': iterations of a fully parallel loop run at once, not on one thread
func.func @f() {
  te.par %i = 4 fully thread { }
  func.return
}

// -----

// CHECK: 'te.par': a fully parallel loop at level grid has all blocks at once, and stands in no other parallel loop
func.func @f() {
  te.par %i = 4 grid { te.par %j = 4 fully grid { } }
  func.return
}

// -----

// CHECK: 'te.kernel' is cooperative, so that all blocks wait for each other: it has neither clusters nor a cut grid
func.func @f() {
  te.kernel "k" %block = 4 cooperative cluster 2 { te.threads %thread = 32 { } }
  func.return
}

// -----

// CHECK: 'te.barrier grid' stands in a 'te.kernel' that is not cooperative, whose blocks may run one after another
func.func @f() {
  te.kernel "k" %block = 4 { te.threads %thread = 32 { te.barrier grid } }
  func.return
}

// -----

// CHECK: 'te.par': a loop at level grid cannot stand in one at level block, which is narrower
func.func @f() {
  te.par %i = 4 block { te.par %j = 4 grid { } }
  func.return
}

// -----

// CHECK: 'te.par': only a fully parallel loop has threads in order, which #align is of
func.func @f() {
  te.par %i = 4 align 4 { }
  func.return
}

// -----

// CHECK: 'te.section': 8x32 is no box of 4x32
func.func @f(%A: !te.buffer<4x32xf32>) {
  %s = te.section %A[0, 0] : !te.buffer<4x32xf32> -> !te.buffer<8x32xf32, (8,32):(32,1)>
  func.return
}

// -----

// CHECK: 'te.section': a box of
func.func @f(%A: !te.buffer<4x32xf32>) {
  %s = te.section %A[0, 0] : !te.buffer<4x32xf32> -> !te.buffer<2x32xf32, (2,32):(16,1)>
  func.return
}

// -----

// CHECK: 'te.call': parameter 0 of @g is !te.buffer<4xf32>, got !te.buffer<8xf32>
func.func @f(%A: !te.buffer<8xf32>) {
  te.call @g(%A) : !te.buffer<8xf32>
  func.return
}
func.func @g(%A: !te.buffer<4xf32>) { func.return }

// -----

// CHECK: 'te.anchor' observes a number (f16, bf16, f32, f64, i32, i8, u8, f8e4m3, f8e5m2, bool), not i16
func.func @f() {
  %one = arith.constant 1 : i16
  te.anchor %one : i16
  func.return
}

// -----

// CHECK: 'te.asm': the text refers to operand %1, but there are 1
func.func @f() {
  %r = te.new : !te.buffer<4xf16, register>
  te.asm "mov.b32 %0, %1;" out %r : !te.buffer<4xf16, register>
  func.return
}

// -----

// CHECK: 'te.asm': operand 0 has 3 elements of f16; two of them take a register, so their number must be even
func.func @f() {
  %r = te.new : !te.buffer<3xf16, register>
  te.asm "mov.b32 %0, 0;" out %r : !te.buffer<3xf16, register>
  func.return
}

// -----

// CHECK: 'te.asm': operand 0 is a value, which cannot be written; use a 'reg'
func.func @f() {
  %x = arith.constant 0.0 : f32
  te.asm "mov.b32 %0, 0;" out %x : f32
  func.return
}

// -----

// CHECK: 'te.copy_async' writes to shared memory, not to !te.buffer<8xf16, register>
func.func @f(%a: !te.buffer<8xf16>) {
  %r = te.new : !te.buffer<8xf16, register>
  te.copy_async 8, %a[0] : !te.buffer<8xf16> to %r[0] : !te.buffer<8xf16, register>
  func.return
}

// -----

// CHECK: 'te.copy_async_or_zero': a thread copies 2, 4, 8 or 16 bytes at once
func.func @f(%a: !te.buffer<8xf16>) {
  %s = te.new : !te.buffer<8xf16, shared>
  te.par %i = 4 {
    te.copy_async_or_zero 3, %a[0] : !te.buffer<8xf16> to %s[0] : !te.buffer<8xf16, shared> if %i - 1 >= 0
  }
  func.return
}

// -----

// CHECK: 'te.copy_async': a thread copies 2, 4, 8 or 16 bytes at once
func.func @f(%a: !te.buffer<8xf16>) {
  %s = te.new : !te.buffer<8xf16, shared>
  te.copy_async 3, %a[0] : !te.buffer<8xf16> to %s[0] : !te.buffer<8xf16, shared>
  func.return
}

// -----

// CHECK: 'te.commit' stands in 'te.threads', outside of steps
func.func @f() {
  te.commit
  func.return
}

// -----

// CHECK: 'te.seq' prefetches 1 or more iterations ahead, not 0
func.func @f() {
  te.seq %i = 4 prefetch 0 {
  }
  func.return
}

// -----

// CHECK: Expected `warp`, `block`, `cluster`, or `grid`.
func.func @f() {
  te.kernel "f" %block = 1 { te.threads %thread = 64 { te.barrier tile } }
  func.return
}

// -----

// CHECK: Expected `add`, `max`, or `min`.
func.func @f(%x: f32) {
  %s = te.all_reduce mul %x : f32
  func.return
}

// -----

// CHECK: 'te.kernel' has 3000000000 blocks; a grid has at most 2147483647
func.func @f() {
  te.kernel "f" %block = 3000000000 { te.threads %thread = 64 { } }
  func.return
}

// -----

// CHECK: 'te.mbarrier_arrive': a phase has at most 1048575 bytes
func.func @f() {
  te.kernel "f" %block = 1 smem 8 {
    %full = te.new_mbarriers {te.offset = 0 : i64} : !te.mbarriers<1>
    te.threads %thread = 32 { te.step "s" { te.mbarrier_arrive %full[0] expect 2000000 : !te.mbarriers<1> } }
  }
  func.return
}

// -----

// CHECK: 'te.named_barrier': 100 threads are no whole warps of a block
func.func @f() {
  te.kernel "f" %block = 1 { te.threads %thread = 128 { te.step "s" { te.named_barrier 1, 100 } } }
  func.return
}

// -----

// CHECK: 'te.bulk_load': the rows of the box have 256 bytes; expected a multiple of 16, at most 128
func.func @f(%a: !te.buffer<64x128xf16>) {
  te.kernel "f" %block = 1 smem 16392 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<8192xf16, S<3,3,3> o (8192):(1), shared>
    %full = te.new_mbarriers {te.offset = 16384 : i64} : !te.mbarriers<1>
    te.threads %thread = 32 {
      te.step "s" {
        te.bulk_load [64, 128], %a[0, 0] : !te.buffer<64x128xf16> to %t[0] : !te.buffer<8192xf16, S<3,3,3> o (8192):(1), shared> on %full[0] : !te.mbarriers<1>
      }
    }
  }
  func.return
}

// -----

// CHECK: 'te.warpgroup_mma': A with the layout (64,16):(16,1): rows of 64 elements must follow each other in groups of 8
func.func @f() {
  te.kernel "f" %block = 1 smem 8192 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
    te.threads %thread = 128 {
      te.step "s" {
        %s = te.new : !te.buffer<32xf32, register>
        te.warpgroup_mma "SM90_64x64x16_F32F16F16_SS" %s, %t[0] <(64,16):(16,1)>, %t[0] <(64,16):(64,1)> : !te.buffer<32xf32, register>, !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>, !te.buffer<4096xf16, S<3,3,3> o (4096):(1), shared>
      }
    }
  }
  func.return
}

// -----

// CHECK: 'te.new': a buffer of a cluster has a first dimension, the block, further ones, what each block has, and no layout
func.func @f() {
  %t = te.new : !te.buffer<64xf32, cluster>
  func.return
}

// -----

// CHECK: 'te.kernel' has clusters of 4, and !te.buffer<2x64xf32, cluster> has parts for 2 blocks
func.func @f() {
  te.kernel "f" %block = 8 cluster 4 smem 256 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<2x64xf32, cluster>
    te.threads %thread = 32 {
      te.barrier cluster
    }
  }
  func.return
}
