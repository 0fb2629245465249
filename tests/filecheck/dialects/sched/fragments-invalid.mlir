// RUN: mg-opt --split-input-file --verify-diagnostics --parsing-diagnostics %s | filecheck %s

// CHECK: the rows of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)> are not shared by a power of two of neighbouring threads; a row must lie in one warp
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>>
  sched.prologue {
    sched.commit
  }
}

// -----

// CHECK: a product is reduced along one of its last two dimensions, not along dimension 0 of 1x32x1
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 0 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.commit
  }
}

// -----

// CHECK: an accumulator is dealt out in equal tiles; leave out its extents 1x32x16
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<1x32x16 dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.commit
  }
}

// -----

// CHECK: has 1 column or 4, one for each lane that shares a row; got 1x32x2
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x32x2xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.commit
  }
}

// -----

// CHECK: a fragment of columns has 1 row, not 1x2x16
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x2x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.commit
  }
}

// -----

// CHECK: 'sched.map' of %p: mul takes 2 operands, got 1
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  sched.prologue {
    sched.map mul %p to %p : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
}

// -----

// CHECK: 'sched.map' of %p is dealt out as #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)> but %p, of 1x32x16, as #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>; they must agree
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %q = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  sched.prologue {
    sched.map exp %p to %q : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  }
}

// -----

// CHECK: 'sched.map' of %p: operands 1x32x16 and 1x32x4 differ in dimension 2: extents must be equal or 1
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %l = sched.empty : !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.map exp %p to %l : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x4xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: 'sched.map' of %n is dealt out as #sched.linear<64, vector 1, order [2, 1, 0]> but %n, of 1x1x16, as #sched.linear<64, vector 1, order [2, 1, 0]>; they must agree
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %n = sched.empty : !sched.tile<1x1x16xf32, #sched.linear<64, vector 1, order [2, 1, 0]>>
  %w = sched.empty : !sched.tile<1x32x16xf32, #sched.linear<64, vector 1, order [2, 1, 0]>>
  sched.prologue {
    sched.map exp %n to %w : !sched.tile<1x1x16xf32, #sched.linear<64, vector 1, order [2, 1, 0]>> to !sched.tile<1x32x16xf32, #sched.linear<64, vector 1, order [2, 1, 0]>>
  }
}

// -----

// CHECK: 'sched.reduce' of %p: the fragment says which threads share a result; leave out 'lanes' and 'by'
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.reduce %p to %r dim 2 contiguous lanes 4 : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: 'sched.reduce' of %s: what threads read from memory is reduced to rows of a #sched.linear
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %s = sched.alloc : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)>
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.reduce %s to %r dim 2 contiguous : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: 'sched.reduce' of %s: results in memory are dealt out; expected 'lanes <n> by <threads, vector, order>'
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %s = sched.alloc : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)>
  %o = sched.alloc : !sched.shared<1x32x1xf32, (1,32,1):(32,1,32)>
  sched.prologue {
    sched.reduce %s to %o dim 2 contiguous : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)> to !sched.shared<1x32x1xf32, (1,32,1):(32,1,32)>
  }
}

// -----

// CHECK: 'sched.reduce' of %p: a fragment is reduced to a slice of it
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %o = sched.alloc : !sched.shared<1x32x1xf32, (1,32,1):(32,1,32)>
  sched.prologue {
    sched.reduce %p to %o dim 2 contiguous lanes 4 by <64, vector 1, order [1, 2, 0]> : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.shared<1x32x1xf32, (1,32,1):(32,1,32)>
  }
}

// -----

// CHECK: 'sched.reduce' of %r: nothing is left to combine of 1x32x1
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.reduce %r to %r dim 2 contiguous : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: a difference is that of a running maximum; expected 'combine max' and 'then [accum]'
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.reduce %p to %r difference %r dim 2 contiguous : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>, !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: 'sched.reduce' of %p: the destination is
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  sched.prologue {
    sched.reduce %p to %p dim 2 contiguous : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
}

// -----

// CHECK: SM80_16x8x8_F32TF32TF32F32_TN does not take
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %a = sched.alloc : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)>
  %q = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x8_F32TF32TF32F32_TN, (2,1,1)>>
  sched.prologue {
    sched.load %a to %q ldmatrix true : !sched.shared<1x32x16xf32, (1,32,16):(512,16,1)> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x8_F32TF32TF32F32_TN, (2,1,1)>>
  }
}

// -----

// CHECK: 'sched.load' of %a: source has 1x32x8, destination 1x32x16
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %a = sched.alloc : !sched.shared<1x32x8xf32, (1,32,8):(256,8,1)>
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  sched.prologue {
    sched.load %a to %p : !sched.shared<1x32x8xf32, (1,32,8):(256,8,1)> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
}

// -----

// CHECK: 'sched.load' of %f: the source has 1x8x1, expected 16 numbers
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %f = sched.alloc : !sched.shared<1x8x1xf32, (1,8,1):(8,1,8)>
  %c = sched.empty : !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    sched.load %f to %c : !sched.shared<1x8x1xf32, (1,8,1):(8,1,8)> to !sched.tile<1x1x16xf32, #sched.slice<dim 1 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: 'sched.mma' of %q: its left operand is
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %b = sched.alloc : !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)>
  %q = sched.empty : !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>
  %p = sched.empty : !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  sched.prologue {
    sched.mma %q, %b to %p ldmatrix [false, true] : !sched.tile<1x32x16xf16, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,2,1)>>, !sched.shared<1x16x16xf16, (1,16,16):(256,16,1)> to !sched.tile<1x32x16xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>
  }
}

// -----

// CHECK: 'sched.store' of %m: a part of a fragment is the columns of a product of warp groups, from a multiple of their number on, written to a buffer of their own
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %half = sched.alloc : !sched.shared<64x64xf16, (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>>
  sched.epilogue {
    sched.store %m from [0, 32] to %half : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>> to !sched.shared<64x64xf16, (64,64):(64,1)>
  }
}

// -----

// CHECK: 'sched.store' of %m: the destination has 64x64 at [0, 128], expected 64x128, the fragment, or a part of it
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %half = sched.alloc : !sched.shared<64x64xf16, (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>>
  sched.epilogue {
    sched.store %m from [0, 128] to %half : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>> to !sched.shared<64x64xf16, (64,64):(64,1)>
  }
}

// -----

// CHECK: 'sched.store' of %m: a part of a fragment is written to shared memory, and never added to it
sched.kernel @k inputs 0 grid [1, 1, 1] block [128, 1, 1] {
^bb0(%o: !sched.global<64x64xf16, (64,64):(64,1)>):
  %half = sched.alloc : !sched.shared<64x64xf16, (64,64):(64,1)>
  %m = sched.empty : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>>
  sched.epilogue {
    sched.store %m from [0, 64] to %half then [accum] : !sched.tile<64x128xf32, #cute.tiled_mma<SM90_64x128x16_F32F16F16_SS, (1,1,1)>> to !sched.shared<64x64xf16, (64,64):(64,1)>
  }
}

// -----

// CHECK: 'aligned' is said of tiles in device memory alone; leave it out
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x16xf16, (1,32,16):(512,16,1)>):
  %f = sched.alloc : !sched.shared<1x32x1xf32, (1,32,1):(32,1,1)>
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    %l = sched.load %f to %r aligned 16 : !sched.shared<1x32x1xf32, (1,32,1):(32,1,1)> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}

// -----

// CHECK: aligned 12 is no size of a vector; write one of 2, 4, 8, 16
sched.kernel @k inputs 1 grid [1, 1, 1] block [64, 1, 1] {
^bb0(%x: !sched.global<1x32x1xf32, (1,32,1):(32,1,1)>):
  %r = sched.empty : !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  sched.prologue {
    %l = sched.load %x to %r aligned 12 : !sched.global<1x32x1xf32, (1,32,1):(32,1,1)> to !sched.tile<1x32x1xf32, #sched.slice<dim 2 of #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,1,1)>>>
  }
}
