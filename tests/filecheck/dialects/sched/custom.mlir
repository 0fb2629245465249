// RUN: mg-opt %s | mg-opt | filecheck %s

// CHECK: sched.custom "double: par 8 i" threads 32(%a, %b) {
// CHECK-NEXT: ^bb0(%thread: index, %x: !te.buffer<8xf32, shared>, %y: !te.buffer<8xf32, shared>):
// CHECK-NEXT:   te.if 7 - %thread >= 0 {
// CHECK: } : !sched.shared<8xf32, (8):(1)>, !sched.shared<8xf32, (8):(1)>
sched.kernel @k inputs 0 grid [1, 1, 1] block [32, 1, 1] smem 256 {
  %a = sched.alloc offset 0 : !sched.shared<8xf32, (8):(1)>
  %b = sched.alloc offset 128 : !sched.shared<8xf32, (8):(1)>
  sched.prologue {
    sched.fill %a with 1.0 : !sched.shared<8xf32, (8):(1)>
    sched.barrier
    sched.custom "double: par 8 i" threads 32(%a, %b) {
    ^bb0(%thread: index, %x: !te.buffer<8xf32, shared>, %y: !te.buffer<8xf32, shared>):
      te.if 7 - %thread >= 0 {
        %0 = te.view %x[%thread] : !te.buffer<8xf32, shared>
        %1 = arith.addf %0, %0 : f32
        te.bind %1, %y[%thread] : !te.buffer<8xf32, shared>
      }
    } : !sched.shared<8xf32, (8):(1)>, !sched.shared<8xf32, (8):(1)>
  }
}
