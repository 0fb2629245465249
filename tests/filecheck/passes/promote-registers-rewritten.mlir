// What is computed before the loop of a buffer that is written behind it is computed again.
// RUN: mg-opt --promote-registers --verify-semantics %s | filecheck %s

// CHECK:      sched.prologue {
// CHECK:        sched.reduce {{.*}} combine max dim 1
// CHECK:      sched.forloop 4
// CHECK-NOT:    combine max
// CHECK:      sched.epilogue {
// CHECK:        sched.map mul_scalar
// CHECK:        sched.reduce {{.*}} combine max dim 1
builtin.module {
  sched.kernel @k inputs 2 grid [1, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: !sched.global<1x256xf32, (1,256):(256,1)>, %dm: !sched.global<1x64xf32, (1,64):(64,1)>, %y: !sched.global<1x64xf32, (1,64):(64,1)>):
    %parts = sched.alloc : !sched.shared<1x64xf32, (1,64):(64,1)>
    %t = sched.alloc : !sched.shared<1x64xf32, (1,64):(64,1)>
    %dx_tile = sched.local_tile %dx map [-1, -1, -1] fordim 1 : !sched.global<1x256xf32, (1,256):(256,1)> -> !sched.global<1x64xf32, (1,64):(256,1)>
    %largest = sched.alloc : !sched.shared<1x1xf32, (1,1):(1,1)>
    %sum = sched.alloc : !sched.shared<1x64xf32, (1,64):(64,1)>
    %after = sched.alloc : !sched.shared<1x1xf32, (1,1):(1,1)>
    %o = sched.alloc : !sched.shared<1x64xf32, (1,64):(64,1)>
    sched.prologue {
      sched.copy %dm to %parts by <64, vector 4, order [1, 0]> iteration 0 : !sched.global<1x64xf32, (1,64):(64,1)> to !sched.shared<1x64xf32, (1,64):(64,1)>
      sched.fill %sum with 0.000000e+00 : !sched.shared<1x64xf32, (1,64):(64,1)>
    }
    sched.forloop 4 {
      sched.copy %dx_tile to %t by <64, vector 4, order [1, 0]> : !sched.global<1x64xf32, (1,64):(256,1)> to !sched.shared<1x64xf32, (1,64):(64,1)>
      sched.reduce %parts to %largest combine max dim 1 contiguous lanes 32 by <64, vector 1, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)> to !sched.shared<1x1xf32, (1,1):(1,1)>
      sched.map mul %t, %largest to %sum then [accum] by <64, vector 1, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)>, !sched.shared<1x1xf32, (1,1):(1,1)> to !sched.shared<1x64xf32, (1,64):(64,1)>
    }
    sched.epilogue {
      sched.map mul_scalar(0.25) %t to %parts by <64, vector 1, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)> to !sched.shared<1x64xf32, (1,64):(64,1)>
      sched.reduce %parts to %after combine max dim 1 contiguous lanes 32 by <64, vector 1, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)> to !sched.shared<1x1xf32, (1,1):(1,1)>
      sched.map mul %sum, %after to %o by <64, vector 1, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)>, !sched.shared<1x1xf32, (1,1):(1,1)> to !sched.shared<1x64xf32, (1,64):(64,1)>
      sched.copy %o to %y by <64, vector 4, order [1, 0]> : !sched.shared<1x64xf32, (1,64):(64,1)> to !sched.global<1x64xf32, (1,64):(64,1)>
    }
  }
  func.func @f(%x: tensor<1x256xf32, #cute.layout<(1,256):(256,1)>>, %m: tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>) -> tensor<1x64xf32, #cute.layout<(1,64):(64,1)>> {
    %y = sched.launch @k %x, %m workspace [-1] : (tensor<1x256xf32, #cute.layout<(1,256):(256,1)>>, tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>) -> tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>
    func.return %y : tensor<1x64xf32, #cute.layout<(1,64):(64,1)>>
  }
}
