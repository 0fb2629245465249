// Ping-pong roles and their order barrier.

// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --print-op-generic %s | mg-opt | filecheck %s

// CHECK: sched.kernel @ping_pong inputs 1 grid [4, 1, 1] persistent 1 block [96, 1, 1] {
sched.kernel @ping_pong inputs 1 grid [4, 1, 1] persistent 1 block [96, 1, 1] {
^bb0(%x: !sched.global<32x64xf16, (32,64):(64,1)>):
  %t = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<32x64xf16, (32,64):(64,1)> -> !sched.global<8x16xf16, (8,16):(64,1)>
  %a = sched.alloc stages 2 : !sched.shared<8x16xf16, (8,16):(16,1)>
  %c = sched.channel %a : !sched.shared<8x16xf16, (8,16):(16,1)>
  // CHECK: %order = sched.order_barrier offset 1024
  %order = sched.order_barrier offset 1024
  sched.barrier
  // CHECK-NEXT: sched.barrier
  // CHECK-NEXT: sched.role "consumers_0" warps 1 ping_pong 0 {
  sched.role "consumers_0" warps 1 ping_pong 0 {
    sched.prologue {
      // CHECK: sched.order_wait %order
      sched.order_wait %order
    }
    sched.forloop 4 {
      sched.consume %c
      sched.release %c
    }
    sched.epilogue {
      // CHECK: sched.order_arrive %order
      sched.order_arrive %order
    }
  }
  // CHECK: sched.role "consumers_1" warps 1 ping_pong 1 {
  sched.role "consumers_1" warps 1 ping_pong 1 {
    sched.prologue {
      sched.order_wait %order
    }
    sched.forloop 4 {
      sched.consume %c
      sched.release %c
    }
    sched.epilogue {
      sched.order_arrive %order
    }
  }
  sched.role "producer" warps 1 elected {
    sched.forloop 4 {
      sched.acquire %c
      sched.bulk_copy %t to %a on %c : !sched.global<8x16xf16, (8,16):(64,1)> to !sched.shared<8x16xf16, (8,16):(16,1)>
      sched.publish %c
    }
  }
}
