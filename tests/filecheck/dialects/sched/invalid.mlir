// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s
// The first line of a message names the operator, the operand or dimension, and what was expected.

// CHECK: 'sched.kernel' @k: grid [2, 1] must have three extents of at least 1, for x, y and z
sched.kernel @k inputs 1 grid [2, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: block [0, 1, 1] must have three extents of at least 1, for x, y and z
sched.kernel @k inputs 1 grid [2, 1, 1] block [0, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: cluster [2] must have three extents of at least 1, for x, y and z
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] cluster [2] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: inputs 5 of 2 arguments
sched.kernel @k inputs 5 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: smem -1 is negative
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] smem -1 {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: argument 0 has type tensor<4xf16>, expected a tensor in device memory, !sched.global
sched.kernel @k inputs 1 grid [1, 1, 1] block [32, 1, 1] {
^bb0(%x: tensor<4xf16>):
  sched.barrier
}

// -----

// CHECK: 'sched.forloop' 0: the loop must have at least 1 iteration
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 0 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.local_tile' %t: dimension 1 of the tile: 64 elements in 4 tiles need 16 in each, or more where none is left empty, not 8
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x8xf16, (8,8):(64,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.local_tile' %t: a tile is a view and keeps the tensor's strides (64, 1), not (16, 1)
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.local_tile' %t: map maps grid axis z to dimension 3, but the tensor has rank 2
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, 3] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.alloc' %a: stages must be at least 1
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 0 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.alloc' %a: offset 8 must be a multiple of 16 bytes
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 offset 8 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: !sched.shared: a layout is missing; write it as !sched.shared<16x128xf16, (16,128):(128,1)>
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: !sched.shared: layout (8,8):(16,1) has extents 8x8, expected 8x16: one mode a dimension
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,8):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: !sched.shared: layout (8,16):(0,1) has stride 0 along dimension 0 of extent 8; its elements would share one address
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(0,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: !sched.tile: the partition orders 1 dimensions, the fragment has 2
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %f = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [0]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: order [1, 1] is not a permutation of the dimensions
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %f = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 1]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: source has 8x16, destination 16x8
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  sched.prologue {
    sched.copy %t to %b by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<16x8xf16, (16,8):(8,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %a moves data between device memory and shared memory; its operands are in the same space
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy %a to %a by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t is dealt to 64 threads, the block has 32
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <64, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: its partition orders 1 dimensions, the tensor has 2
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 4, order [0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: 32 bytes exceed a thread's widest access
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 16, order [1, 0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: cp.async moves 4, 8 or 16 bytes, not 2; copy synchronously
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 1, order [1, 0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %a: only copies to shared memory can be async
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %a to %t by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.global<8x16xf16, (8,16):(64,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: an async copy cannot convert elements
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf32, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf32, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: ahead 2 would overwrite a stage still in use; the buffer has 2 stages
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: 'ahead' has a meaning only in the loop
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> ahead 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: 'iteration' has a meaning only before the loop
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> iteration 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.copy' of %t: iteration 4 does not exist, the loop has 4
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.copy async %t to %a by <32, vector 4, order [1, 0]> iteration 4 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.wait': pending -1 must be at least 0
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.wait pending -1
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.map' of %a: add takes 2 operands, got 1
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map add %a to %a by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: unknown scalar function 'cosh'
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map cosh %a to %a by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.map' of %a: operands 8x16 and 16x8 differ in dimension 0: extents must be equal or 1
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map exp %a to %b by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<16x8xf16, (16,8):(8,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.map' of %a: no fragment of 8x16 says who computes what; expected 'by <threads, vector, order>'
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map exp %a to %b : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.map' of %a is dealt out as its fragments are, #sched.linear<32, vector 4, order [1, 0]>, not as #sched.linear<32, vector 2, order [1, 0]>; leave out 'by'
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %f = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map exp %a to %f by <32, vector 2, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.reduce' of %a: 8x16 does not reduce to 8x8 along dimension 0
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.alloc : !sched.shared<8x8xf16, (8,8):(8,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.reduce %a to %c dim 0 strided lanes 1 by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.reduce' of %a: a difference is that of a running maximum; expected 'combine max' and 'then [accum]'
sched.kernel @k_difference inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.alloc : !sched.shared<8x8xf16, (8,8):(8,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.reduce %a to %c difference %c dim 1 strided lanes 1 by <32, vector 1, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>, !sched.shared<8x8xf16, (8,8):(8,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.reduce' of %a: 3 lanes cannot share a sum; expected a power of two up to 32
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.alloc : !sched.shared<8x8xf16, (8,8):(8,1)>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.reduce %a to %c dim 1 strided lanes 3 by <32, vector 4, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x8xf16, (8,8):(8,1)>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.mma' of %a: operand 0 (8x16) has 16 columns but operand 1 (8x16) has 8 rows
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.mma %a, %a to %m ldmatrix [true, true] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.mma' of %a: the accumulator has 8x16, expected 8x8
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  %f = sched.empty : !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.mma %a, %b to %f ldmatrix [true, true] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x8xf16, (16,8):(8,1)> to !sched.tile<8x16xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.mma' of %a: the accumulator must be a fragment with a #cute.tiled_mma
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  %f = sched.empty : !sched.tile<8x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.mma %a, %b to %f ldmatrix [true, true] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x8xf16, (16,8):(8,1)> to !sched.tile<8x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.store' of %m: source has 8x8, destination 8x16
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.store %m to %a : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
}

// -----

// CHECK: 'sched.store' of %m: the fragment has 8x8 at [0, 16], expected 8x16, the destination, or a part of it
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.store %m to %a at [0, 16] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.shared<8x16xf16, (8,16):(16,1)>
  }
}

// -----

// CHECK: 'sched.mma' of %a: the fragment has 8x8 at [8, 0], expected 8x16, the product, or a part of it
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x16xf16, (16,16):(16,1)>
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.mma %a, %b at [8, 0] to %m ldmatrix [true, true] : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x16xf16, (16,16):(16,1)> to !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.map' of %m is dealt out as #sched.linear<32, vector 4, order [1, 0]> but %m, of 8x8, as #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>; they must agree
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %m = sched.empty : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  %f = sched.empty : !sched.tile<8x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.map identity %m to %f then [accum] : !sched.tile<8x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.tile<8x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  }
  sched.epilogue {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role': the roles of the kernel take 2 warps, its block has 1
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "consumers" warps 1 {
    sched.barrier
  }
  sched.role "producer" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role': a role takes at least 1 warp, not 0
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "producer" warps 0 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role' must stand in the body of the kernel; it holds phases, not the other way round
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.forloop 4 {
    sched.role "producer" warps 1 {
      sched.barrier
    }
  }
}

// -----

// CHECK: 'sched.role': registers 36 must be a multiple of 8 from 24 to 256
sched.kernel @k inputs 1 grid [2, 1, 1] block [128, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "consumers" warps 4 registers 36 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role': only whole warpgroups change their registers, 4 warps from a multiple of 4 on; the role has 4 from warp 2 on
sched.kernel @k inputs 1 grid [2, 1, 1] block [192, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "producer" warps 2 {
    sched.barrier
  }
  sched.role "consumers" warps 4 registers 40 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.role': the roles of the kernel take 65536 registers; its block of 256 threads starts with 128 each, 32768
sched.kernel @k inputs 1 grid [2, 1, 1] block [256, 1, 1] resident 2 {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "consumers" warps 4 registers 256 {
    sched.barrier
  }
  sched.role "producer" warps 4 registers 256 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.forloop' 4: the loops of all roles of a kernel run equally often
sched.kernel @k inputs 1 grid [2, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.role "consumers" warps 1 {
    sched.forloop 4 {
      sched.barrier
    }
  }
  sched.role "producer" warps 1 {
    sched.forloop 5 {
      sched.barrier
    }
  }
}

// -----

// CHECK: 'sched.map' of %s is dealt to 64 threads, its role has 32
sched.kernel @k inputs 1 grid [2, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %s = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "consumers" warps 1 {
    sched.prologue {
      sched.map exp %s to %s by <64, vector 1, order [1, 0]> : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    }
  }
}

// -----

// CHECK: 'sched.channel' %r: its buffers have [1, 2] stages; they must agree
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x8xf16, (16,8):(8,1)>
  %r = sched.channel %a, %b : !sched.shared<8x16xf16, (8,16):(16,1)>, !sched.shared<16x8xf16, (16,8):(8,1)>
}

// -----

// CHECK: 'sched.channel' %c: offset 4 must be a multiple of 8 bytes
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a offset 4 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.forloop 4 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.channel' %c ends at byte 544, beyond the kernel's smem 512
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] smem 512 {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a offset 512 : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.forloop 4 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.consume' of %c stands outside of roles; a channel is between roles
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.forloop 4 {
    sched.consume %c
  }
}

// -----

// CHECK: 'sched.acquire' of %c: ahead 3 must be between 0 and the 2 stages of the ring
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.acquire %c ahead 3
    }
  }
}

// -----

// CHECK: 'sched.publish' of %c: 'iteration' has no meaning in the loop
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.publish %c iteration 0
    }
  }
}

// -----

// CHECK: 'sched.produce' of %c: 'sched.bulk_copy' of %t does not fill the stage; expected bulk copies on %c for the same iteration
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.produce %c ahead 2 {
        sched.bulk_copy %t to %a on %c ahead 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      }
    }
  }
}

// -----

// CHECK: 'sched.produce' of %c: 'sched.acquire' of %c does not fill the stage; expected bulk copies on %c for the same iteration
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.produce %c ahead 2 {
        sched.acquire %c ahead 2
      }
    }
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t: %a is no buffer of the channel it is filled through; write 'on' and a channel that has it
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy %t to %a ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    }
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t is issued by one thread; it stands in an elected role
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 {
    sched.forloop 4 {
      sched.bulk_copy %t to %a on %c ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    }
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %a: the source has 8x16 at [0, 24], expected 8x32, the destination, or a part of it
sched.kernel @k inputs 0 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%o: !sched.global<16x32xf16, (16,32):(32,1)>):
  %t = sched.local_tile %o map [0, -1, -1] : !sched.global<16x32xf16, (16,32):(32,1)> -> !sched.global<8x32xf16, (8,32):(32,1)>
  %a = sched.alloc : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.epilogue {
    sched.bulk_copy %a to %t at [0, 24] : !sched.shared<8x16xf16, (8,16):(16,1)> to !sched.global<8x32xf16, (8,32):(32,1)>
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t: multicast divides the boxes of a tile that is loaded among the blocks of a cluster; there are 1 boxes and 2 blocks
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] cluster [2, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy multicast %t to %a on %c ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
    }
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t: a 'sched.cluster_barrier' must stand before the roles of the kernel and at the end of each
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] cluster [2, 1, 1] {
^bb0(%x: !sched.global<8x512xf16, (8,512):(512,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<8x512xf16, (8,512):(512,1)> -> !sched.global<8x128xf16, (8,128):(512,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  %c = sched.channel %a : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy multicast %t to %a on %c ahead 2 : !sched.global<8x128xf16, (8,128):(512,1)> to !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
    }
  }
}

// -----

// CHECK: 'sched.kernel' @k: persistent 4 must be from 1 to less than the 4 blocks of the grid
sched.kernel @k inputs 1 grid [4, 1, 1] persistent 4 block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.barrier
}

// -----

// CHECK: 'sched.bulk_copy' of %t: its rows do not lie densely in the buffer's layout (8,16):(1,8)
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(1,8)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(1,8)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy %t to %a on %c ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(1,8)>
    }
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t: a bulk copy cannot swizzle as S<1,3,4> o (8,16):(16,1) does
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, S<1,3,4> o (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, S<1,3,4> o (8,16):(16,1)>
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy %t to %a on %c ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, S<1,3,4> o (8,16):(16,1)>
    }
  }
}

// -----

// CHECK: 'sched.launch' %y: the module has no 'sched.kernel' named @missing
func.func @f(%x: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) {
  %y = sched.launch @missing %x : (tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
  func.return
}

// -----

// CHECK: 'sched.launch' %y passes 2 inputs and takes 1 results; 'sched.kernel' @k has 1 inputs and 1 outputs
sched.kernel @k inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.commit
  }
  sched.forloop 4 {
    sched.barrier
  }
  sched.epilogue {
    sched.barrier
  }
}
func.func @f(%x: tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) {
  %y = sched.launch @k %x, %x : (tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>, tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>) -> tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
  func.return
}

// -----

// CHECK: 'sched.local_tile' %t must stand in the body of a 'sched.kernel'
func.func @f(%x: !sched.global<16x64xf16, (16,64):(64,1)>) {
  %t = sched.local_tile %x map [-1, -1, -1] : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<16x64xf16, (16,64):(64,1)>
  func.return
}

// -----

// CHECK: !sched.tile: #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,4)> has 4 warps along k, so that the first of at least 3 extents must be 4, one partial sum for each; it is 16x64
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %f = sched.empty : !sched.tile<16x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,4)>>
}

// -----

// CHECK: 'sched.reduce' of %s: 4x16x64 does not reduce to 64x16 along dimension 0
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %s = sched.alloc : !sched.shared<4x16x64xf32, (4,16,64):(1024,64,1)>
  %d = sched.alloc : !sched.shared<64x16xf16, (64,16):(16,1)>
  sched.epilogue {
    sched.reduce %s to %d dim 0 contiguous by <128, vector 4, order [1, 0]> : !sched.shared<4x16x64xf32, (4,16,64):(1024,64,1)> to !sched.shared<64x16xf16, (64,16):(16,1)>
  }
}

// -----

// CHECK: 'sched.forloop' of %n: %n may be 0, so the first iteration cannot be peeled; leave out 'peeled'
sched.kernel @k inputs 1 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%n: index):
  sched.forloop %n peeled {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.forloop' of %n stands in a role, whose rings are filled ahead for a known number of iterations; write 'sched.forloop <n>'
sched.kernel @k inputs 1 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%n: index):
  sched.role "consumers" warps 4 {
    sched.forloop %n {
      sched.barrier
    }
  }
}

// -----

// CHECK: 'sched.forloop': expected a 'range' or a 'bound', which say how often it runs
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  "sched.forloop"() <{operandSegmentSizes = array<i32: 0, 0>}> ({
    sched.barrier
  }) : () -> ()
}

// -----

// CHECK: 'sched.kernel' @k: its loop runs as often as %n says; say 'forloop <n>', into how many tiles it cuts tensors at most
sched.kernel @k inputs 2 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %n: index):
  %t = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<16x8xf16, (16,8):(64,1)>
  sched.forloop %n {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @k: argument 0 has type index, expected a tensor in device memory, !sched.global, or an input of type index
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%n: index):
}

// -----

// CHECK: 'sched.wait' of %old: pending 2 can leave %old in flight; to wait for it, say pending 1
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %old = sched.commit
  %new = sched.commit
  sched.wait pending 2 for %old
}

// -----

// The first iteration would wait for enough, the others would not.
// CHECK: 'sched.wait' of %b: pending 1 can leave %b in flight; to wait for it, say pending 0
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %x, %y = sched.prologue {
    %first = sched.commit
    %second = sched.commit
    sched.yield %first, %second : !sched.token, !sched.token
  } -> !sched.token, !sched.token
  %c, %d = sched.forloop 4 carrying %x, %y : !sched.token, !sched.token {
  ^bb0(%a: !sched.token, %b: !sched.token):
    sched.wait pending 1 for %a
    sched.wait pending 1 for %b
    %new = sched.commit
    sched.yield %b, %new : !sched.token, !sched.token
  }
}

// -----

// CHECK: 'sched.wait' of %a: pending 1 can leave %a in flight; to wait for it, say pending 0
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %x = sched.commit
  %y = sched.commit
  %c = sched.forloop 4 carrying %x : !sched.token {
  ^bb0(%a: !sched.token):
    sched.wait pending 1 for %a
    %new = sched.commit
    sched.yield %new : !sched.token
  }
}

// -----

// CHECK: 'sched.reduce' of %s: results without dimension 0 are sums, each thread's its own; leave out 'combine', 'lanes' and 'parts'
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %s = sched.alloc : !sched.shared<4x16x64xf32, (4,16,64):(1024,64,1)>
  %d = sched.alloc : !sched.shared<16x64xf32, (16,64):(64,1)>
  sched.epilogue {
    sched.reduce %s to %d combine max dim 0 contiguous by <128, vector 4, order [1, 0]> : !sched.shared<4x16x64xf32, (4,16,64):(1024,64,1)> to !sched.shared<16x64xf32, (16,64):(64,1)>
  }
}

// -----

// CHECK: 'sched.reduce' of %x: 2 warps share a row, expected 'parts 2' and as many elements for each along dimension 1
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %x = sched.empty : !sched.tile<2x512xf32, #sched.linear<128, vector 8, order [1, 0]>>
  %p = sched.alloc : !sched.shared<2x4xf32, (2,4):(4,1)>
  sched.epilogue {
    sched.reduce %x to %p dim 1 contiguous parts 4 : !sched.tile<2x512xf32, #sched.linear<128, vector 8, order [1, 0]>> to !sched.shared<2x4xf32, (2,4):(4,1)>
  }
}

// -----

// CHECK: 'sched.launch' %o: %x may change, but 'sched.kernel' @k loads its input 0 as one that is constant; mark the function's argument with mugraph.constant
sched.kernel @k inputs 1 constant [0] grid [1, 1, 1] block [128, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.grid_wait
  }
}
func.func @f(%x: tensor<16x64xf16>) -> tensor<16x64xf16> {
  %o = sched.launch @k %x : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}

// -----

// CHECK: argument 0 (%x) of 'func.func' @f: mugraph.constant has no value, not true; leave the attribute out where the contents change
sched.kernel @k inputs 1 constant [0] grid [1, 1, 1] block [128, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>, %o: !sched.global<16x64xf16, (16,64):(64,1)>):
  sched.prologue {
    sched.grid_wait
  }
}
func.func @f(%x: tensor<16x64xf16> {mugraph.constant = true}) -> tensor<16x64xf16> {
  %o = sched.launch @k %x : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}

// -----

// CHECK: '<' expected
func.func @f(%x: !sched.tile<16x1xf32, #sched.slice dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN>>) { func.return }

// -----

// CHECK: operand is used with type !sched.shared<16x64xbf16, (16,64):(64,1)>, but has been previously used or defined with type !sched.shared<16x64xf16, (16,64):(64,1)>
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
  %x = sched.alloc : !sched.shared<16x64xf16, (16,64):(64,1)>
  sched.prologue {
    sched.fill %x with 0.0 : !sched.shared<16x64xbf16, (16,64):(64,1)>
  }
}

// -----

// CHECK: 'sched.mma' of %a: elements that functions are applied to are loaded one by one, and not added to anything; write 'ldmatrix [..., false]', and 'through' without 'accum'
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] forloop 1 {
  %a = sched.alloc : !sched.shared<16x16xbf16, (16,16):(16,1)>
  %b = sched.alloc : !sched.shared<16x8xi8, (16,8):(1,16)>
  %m = sched.empty : !sched.tile<16x8xf32, #cute.tiled_mma<SM80_16x8x16_F32BF16BF16F32_TN, (1,1,1)>>
  sched.prologue {
    sched.mma %a, %b to %m ldmatrix [true, true] through [] : !sched.shared<16x16xbf16, (16,16):(16,1)>, !sched.shared<16x8xi8, (16,8):(1,16)> to !sched.tile<16x8xf32, #cute.tiled_mma<SM80_16x8x16_F32BF16BF16F32_TN, (1,1,1)>>
  }
}

// -----

// Rows lie 264 bytes apart: also a tile of one row, which its number moves, may start at no multiple of 16.
// CHECK: 'sched.store' of %q: numbers name the rows of the tile that it writes; only quads of lanes write such a tile from registers
sched.kernel @k inputs 1 grid [8, 1, 1] block [32, 1, 1] forloop 1 {
^bb0(%n: !sched.global<8x1xi32, (8,1):(1,1)>, %o: !sched.global<8x128xf16, (8,128):(132,1)>):
  %t = sched.local_tile %o through %n map [0, -1, -1] : !sched.global<8x128xf16, (8,128):(132,1)>, !sched.global<8x1xi32, (8,1):(1,1)> -> !sched.global<1x1x128xf16, (1,1,128):(0,0,1)>
  %p = sched.empty : !sched.tile<1x1x128xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
  sched.epilogue {
    %q = sched.fill %p with 0.000000e+00 : !sched.tile<1x1x128xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>
    sched.store %q to %t : !sched.tile<1x1x128xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>> to !sched.global<1x1x128xf16, (1,1,128):(0,0,1)>
  }
}
