// Roles of warps, channels between them, bulk copies; clusters.

// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s
// RUN: mg-opt %S/../../passes/Inputs/channel-sum.mlir | mg-opt | filecheck %s --check-prefix SUM
// RUN: mg-opt %S/../../passes/Inputs/channel-matmul.mlir | mg-opt | filecheck %s --check-prefix MATMUL

// SUM: sched.channel %sb offset 8320 : !sched.shared<16x64xf16, S<3,3,3> o (16,64):(64,1)>
// MATMUL: sched.channel %sx, %sw offset 32768 : !sched.shared<16x64xf16, {{.*}}, !sched.shared<64x64xf16

// CHECK: sched.kernel @roles inputs 1 grid [2, 1, 1] block [160, 1, 1] cluster [2, 1, 1] {
sched.kernel @roles inputs 1 grid [2, 1, 1] block [160, 1, 1] cluster [2, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  // CHECK: sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  // CHECK-NEXT: sched.barrier
  sched.barrier
  // CHECK-NEXT: sched.role "consumers" warps 4 registers 40 {
  sched.role "consumers" warps 4 registers 40 {
    sched.forloop 4 {
      // CHECK: sched.consume %c
      sched.consume %c
      sched.barrier
      // CHECK: sched.release %c
      sched.release %c
    }
  }
  // CHECK: sched.role "producer" warps 1 elected {
  sched.role "producer" warps 1 elected {
    sched.prologue {
      // CHECK: sched.bulk_copy %t to %a on %c iteration 0 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      sched.bulk_copy %t to %a on %c iteration 0 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      // CHECK-NEXT: sched.publish %c iteration 0
      sched.publish %c iteration 0
      sched.bulk_copy %t to %a on %c iteration 1 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      sched.publish %c iteration 1
    }
    sched.prologue {
      // CHECK: sched.produce %c iteration 2 {
      // CHECK-NEXT: sched.bulk_copy %t to %a on %c iteration 2 :
      // CHECK-NEXT: }
      sched.produce %c iteration 2 {
        sched.bulk_copy %t to %a on %c iteration 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      }
    }
    sched.forloop 4 {
      // CHECK: sched.acquire %c ahead 2
      sched.acquire %c ahead 2
      // CHECK-NEXT: sched.bulk_copy %t to %a on %c ahead 2 : !sched.global
      sched.bulk_copy %t to %a on %c ahead 2 : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      // CHECK-NEXT: sched.publish %c ahead 2
      sched.publish %c ahead 2
    }
  }
}
