// Which iterations a block runs may depend on it.
// RUN: mg-opt %s | mg-opt | filecheck %s
// RUN: mg-opt --plan-dtensor-memory --plan-stensor-memory --check-hazards -t cuda %s | filecheck %s --check-prefix CUDA

// CHECK: sched.kernel @sums inputs 1 grid [4, 1, 1] block [32, 1, 1] forloop 8 where affine_set<(d0, d1, d2, d3) : ((((d0 * 2) + 1) + (d3 * -1)) >= 0, ((d3 + (d0 * -1)) + 1) >= 0)> {

// Tiles count from the block's first one, stages and what is copied ahead from its first iteration.
// CUDA: tb::Span const span = tb::span<8>(tb::bound<-1>(2 * static_cast<int>(blockIdx.x) + 1), tb::bound<1>(-1 * static_cast<int>(blockIdx.x) + 1));
// CUDA: tb::CopyAsync<{{.*}}>::run(s, x_tile + span.first * 8, thread);
// CUDA: if (1 < span.count) {
// CUDA: tb::CopyAsync<{{.*}}>::run(s + {{.*}}, x_tile + (span.first + 1) * 8, thread);
// CUDA: for (int it = 0; it < span.count; ++it, ++stage) {
// CUDA: if (it + 2 < span.count) {
// CUDA: x_tile + (span.first + it + 2) * 8, thread);

// Block b adds up tiles b - 1 to 2 b + 1 of its rows.
sched.kernel @sums inputs 1 grid [4, 1, 1] block [32, 1, 1] forloop 8 where affine_set<(x, y, z, it) : (2 * x + 1 - it >= 0, it - x + 1 >= 0)> {
^bb0(%x: !sched.global<64x64xf32, (64,64):(64,1)>, %o: !sched.global<64x8xf32, (64,8):(8,1)>):
  %s = sched.alloc stages 3 : !sched.shared<16x8xf32, (16,8):(8,1)>
  %x_tile = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<64x64xf32, (64,64):(64,1)> -> !sched.global<16x8xf32, (16,8):(64,1)>
  %o_tile = sched.local_tile %o map [0, -1, -1] : !sched.global<64x8xf32, (64,8):(8,1)> -> !sched.global<16x8xf32, (16,8):(8,1)>
  %sum = sched.empty : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
  %zeros, %one, %two = sched.prologue {
    sched.copy async %x_tile to %s by <32, vector 4, order [1, 0]> iteration 0 : !sched.global<16x8xf32, (16,8):(64,1)> to !sched.shared<16x8xf32, (16,8):(8,1)>
    %first = sched.commit
    sched.copy async %x_tile to %s by <32, vector 4, order [1, 0]> iteration 1 : !sched.global<16x8xf32, (16,8):(64,1)> to !sched.shared<16x8xf32, (16,8):(8,1)>
    %second = sched.commit
    %cleared = sched.fill %sum with 0.0 : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %cleared, %first, %second : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token, !sched.token
  } -> !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token, !sched.token
  %total, %last, %next = sched.forloop 8 carrying %zeros, %one, %two : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token, !sched.token {
  ^bb0(%before: !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, %oldest: !sched.token, %newest: !sched.token):
    sched.wait pending 1 for %oldest
    sched.barrier
    sched.copy async %x_tile to %s by <32, vector 4, order [1, 0]> ahead 2 : !sched.global<16x8xf32, (16,8):(64,1)> to !sched.shared<16x8xf32, (16,8):(8,1)>
    %group = sched.commit
    %after = sched.map identity %s to %before then [accum] : !sched.shared<16x8xf32, (16,8):(8,1)> to !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>
    sched.yield %after, %newest, %group : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>>, !sched.token, !sched.token
  }
  sched.epilogue {
    sched.copy %total to %o_tile by <32, vector 4, order [1, 0]> : !sched.tile<16x8xf32, #sched.linear<32, vector 4, order [1, 0]>> to !sched.global<16x8xf32, (16,8):(8,1)>
  }
}
func.func @f(%x: tensor<64x64xf32, #cute.layout<(64,64):(64,1)>>) -> tensor<64x8xf32, #cute.layout<(64,8):(8,1)>> {
  %o = sched.launch @sums %x : (tensor<64x64xf32, #cute.layout<(64,64):(64,1)>>) -> tensor<64x8xf32, #cute.layout<(64,8):(8,1)>>
  func.return %o : tensor<64x8xf32, #cute.layout<(64,8):(8,1)>>
}
