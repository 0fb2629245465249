// What Hopper and Blackwell need: clusters, bulk copies, channels between warps, roles.

// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s

// CHECK: sched.kernel @roles inputs 1 grid [2, 1, 1] block [128, 1, 1] cluster [2, 1, 1] {
sched.kernel @roles inputs 1 grid [2, 1, 1] block [128, 1, 1] cluster [2, 1, 1] {
^bb0(%x: !sched.global<16x64xf16, (16,64):(64,1)>):
  %t = sched.tile %x map [0, -1, -1] fordim 1 : !sched.global<16x64xf16, (16,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  // CHECK: sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)> -> !sched.channel_type
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)> -> !sched.channel_type
  sched.forloop 4 {
    // CHECK: sched.role "producer" warps 1 registers 40 {
    sched.role "producer" warps 1 registers 40 {
      // CHECK-NEXT: sched.acquire %c : !sched.channel_type
      sched.acquire %c : !sched.channel_type
      // CHECK-NEXT: sched.bulk_copy multicast %t to %a : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      sched.bulk_copy multicast %t to %a : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      // CHECK-NEXT: sched.bulk_copy %t to %a
      sched.bulk_copy %t to %a : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      // CHECK-NEXT: sched.publish %c
      sched.publish %c : !sched.channel_type
    }
    // CHECK: sched.role "consumer" warps 3 {
    sched.role "consumer" warps 3 {
      // CHECK-NEXT: sched.consume %c
      sched.consume %c : !sched.channel_type
      // CHECK-NEXT: sched.release %c
      sched.release %c : !sched.channel_type
    }
  }
}
