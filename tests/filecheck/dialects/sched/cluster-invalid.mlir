// Clusters are whole, and what is brought to all blocks of one they have in common.

// RUN: mg-opt --verify-diagnostics --split-input-file %s | filecheck %s

// CHECK: 'sched.kernel' @no_whole_clusters: 131 blocks are launched along x, which clusters of 2 do not divide; launch a multiple of 2
sched.kernel @no_whole_clusters inputs 0 grid [256, 1, 1] persistent 131 block [32, 1, 1] cluster [2, 1, 1] {
  sched.role "one" warps 1 {
    sched.barrier
  }
}

// -----

// CHECK: 'sched.kernel' @across_the_raster: with raster 2 blocks start along x, one after the other; cluster [1, 2, 1] must lie along x, too
sched.kernel @across_the_raster inputs 0 grid [4, 4, 1] raster 2 block [32, 1, 1] cluster [1, 2, 1] {
  sched.barrier
}

// -----

// CHECK: 'sched.bulk_copy' of %t: multicast brings one tile to all blocks of a cluster; they differ along y of the grid, and so do their tiles of %x
sched.kernel @along_y inputs 1 grid [2, 2, 1] block [32, 1, 1] cluster [1, 2, 1] {
^bb0(%x: !sched.global<16x512xf16, (16,512):(512,1)>):
  %t = sched.local_tile %x map [-1, 0, -1] fordim 1 : !sched.global<16x512xf16, (16,512):(512,1)> -> !sched.global<8x128xf16, (8,128):(512,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  %c = sched.channel %a : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  sched.cluster_barrier
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy multicast %t to %a on %c ahead 2 : !sched.global<8x128xf16, (8,128):(512,1)> to !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
    }
    sched.cluster_barrier
  }
}

// -----

// Down the columns of groups of two rows a cluster of four has two columns.
// CHECK: 'sched.bulk_copy' of %t: multicast brings one tile to all blocks of a cluster; they differ along x of the grid, and so do their tiles of %x
sched.kernel @two_columns inputs 1 grid [4, 4, 1] raster 2 block [32, 1, 1] cluster [4, 1, 1] {
^bb0(%x: !sched.global<32x1024xf16, (32,1024):(1024,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<32x1024xf16, (32,1024):(1024,1)> -> !sched.global<8x256xf16, (8,256):(1024,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x256xf16, S<3,3,3> o (8,(64,4)):(64,(1,512))>
  %c = sched.channel %a : !sched.shared<8x256xf16, S<3,3,3> o (8,(64,4)):(64,(1,512))>
  sched.cluster_barrier
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy multicast %t to %a on %c ahead 2 : !sched.global<8x256xf16, (8,256):(1024,1)> to !sched.shared<8x256xf16, S<3,3,3> o (8,(64,4)):(64,(1,512))>
    }
    sched.cluster_barrier
  }
}

// -----

// CHECK: 'sched.bulk_copy' of %t: multicast brings one tile to the 2 blocks of a cluster, which do not divide the 5 blocks of the grid; some would have no tile left
sched.kernel @one_left inputs 1 grid [5, 1, 1] persistent 2 block [32, 1, 1] cluster [2, 1, 1] {
^bb0(%x: !sched.global<8x512xf16, (8,512):(512,1)>):
  %t = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<8x512xf16, (8,512):(512,1)> -> !sched.global<8x128xf16, (8,128):(512,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  %c = sched.channel %a : !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
  sched.cluster_barrier
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.bulk_copy multicast %t to %a on %c ahead 2 : !sched.global<8x128xf16, (8,128):(512,1)> to !sched.shared<8x128xf16, S<3,3,3> o (8,(64,2)):(64,(1,512))>
    }
    sched.cluster_barrier
  }
}
