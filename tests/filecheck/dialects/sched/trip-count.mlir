// How often a loop runs may be known only when the kernel is launched.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --promote-registers --plan-dtensor-memory --plan-stensor-memory -t cuda %s | filecheck %s --check-prefix CUDA
// RUN: not mg-opt --pipeline-loads %s 2>&1 | filecheck %s --check-prefix NUMBER
// RUN: not mg-opt --plan-stensor-memory --check-hazards %s 2>&1 | filecheck %s --check-prefix NUMBER
// RUN: not mg-opt --plan-dtensor-memory --verify-semantics %s 2>&1 | filecheck %s --check-prefix COMPARED
// RUN: not mg-compile %s -o %t 2>&1 | filecheck %s --check-prefix COMPILED
// RUN: not mg-run %s 2>&1 | filecheck %s --check-prefix RANDOM

// CHECK: sched.kernel @sums inputs 2 grid [1, 1, 1] block [32, 1, 1] forloop 8 {
// CHECK: %total, %last = sched.forloop %n carrying %zeros, %first
// CUDA: sums(float const* __restrict__ x, int const n, float* __restrict__ o) {
// CUDA: for (int it = 0; it < n; ++it, ++stage) {
// CUDA: if (it + 1 < n) {
// CUDA: mugraph::check_alignment(input_tensors.at(0), 16, "input 0 (x)");
// CUDA-NEXT: mugraph::check_alignment(output_tensors.at(0)
// CUDA: int64_t const n = *(int64_t const*)input_tensors.at(1);
// CUDA: mugraph::launch("sums", sums, dim3(1, 1, 1), dim3(32, 1, 1), 1024, stream, x, n, o);
// NUMBER: runs as often as %n says when the kernel is launched, but its number of iterations is needed here; write 'sched.forloop <n>'
// COMPARED: @f takes %n, an index; functions are compared on tensors alone.
// COMPILED: %n has type index, but C functions take tensors alone; print the kernel with -t cuda
// RANDOM: @f takes a number of type index; give it with --inputs.

// The sum of the first %n of 8 tiles of each row.
sched.kernel @sums inputs 2 grid [1, 1, 1] block [32, 1, 1] forloop 8 {
^bb0(%x: !sched.global<16x64xf32, (16,64):(64,1)>, %n: index, %o: !sched.global<16x8xf32, (16,8):(8,1)>):
  %s = sched.alloc stages 2 : !sched.shared<16x8xf32, (16,8):(8,1)>
  %x_tile = sched.local_tile %x map [-1, -1, -1] fordim 1 : !sched.global<16x64xf32, (16,64):(64,1)> -> !sched.global<16x8xf32, (16,8):(64,1)>
  %o_tile = sched.local_tile %o map [-1, -1, -1] : !sched.global<16x8xf32, (16,8):(8,1)> -> !sched.global<16x8xf32, (16,8):(8,1)>
  %sum = sched.empty : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %zeros, %first = sched.prologue {
    sched.copy async %x_tile to %s by <32, vector 4, order [1, 0]> iteration 0 : !sched.global<16x8xf32, (16,8):(64,1)> to !sched.shared<16x8xf32, (16,8):(8,1)>
    %group = sched.commit
    %cleared = sched.fill %sum with 0.0 : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %cleared, %group : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token
  } -> !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token
  %total, %last = sched.forloop %n carrying %zeros, %first : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token {
  ^bb0(%before: !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, %group: !sched.token):
    sched.wait pending 0 for %group
    sched.barrier
    sched.copy async %x_tile to %s by <32, vector 4, order [1, 0]> ahead 1 : !sched.global<16x8xf32, (16,8):(64,1)> to !sched.shared<16x8xf32, (16,8):(8,1)>
    %next = sched.commit
    %after = sched.map identity %s to %before then [accum] : !sched.shared<16x8xf32, (16,8):(8,1)> to !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %after, %next : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token
  }
  sched.epilogue {
    sched.copy %total to %o_tile by <32, vector 4, order [1, 0]> : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.global<16x8xf32, (16,8):(8,1)>
  }
}
func.func @f(%x: tensor<16x64xf32, #cute.layout<(16,64):(64,1)>>, %n: index) -> tensor<16x8xf32, #cute.layout<(16,8):(8,1)>> {
  %o = sched.launch @sums %x, %n : (tensor<16x64xf32, #cute.layout<(16,64):(64,1)>>, index) -> tensor<16x8xf32, #cute.layout<(16,8):(8,1)>>
  func.return %o : tensor<16x8xf32, #cute.layout<(16,8):(8,1)>>
}
