// RUN: mg-opt %s --te-map --te-prefetch | filecheck %s --check-prefix PREFETCH
// RUN: mg-opt %s --te-lower | filecheck %s --check-prefix LOWER
// RUN: mg-opt %s --te-lower -t cuda | filecheck %s --check-prefix CUDA

// Sums of pairs of rows that a block reads by way of shared memory, two rows ahead.
func.func @sums(%x: !te.buffer<8x32x64xf32>, %y: !te.buffer<8x64xf32> {te.result}) {
  te.par %b = 8 grid {
    %s = te.new : !te.buffer<64xf32>
    te.par %j = 64 block {
      %0 = arith.constant 0.0 : f32
      te.bind %0, %s[%j] : !te.buffer<64xf32>
    }
    te.seq %k = 32 prefetch 2 {
      %t = te.new : !te.buffer<64xf32, shared>
      te.par %j = 64 block {
        %1 = te.view %x[%b, %k, %j] : !te.buffer<8x32x64xf32>
        te.bind %1, %t[%j] : !te.buffer<64xf32, shared>
      }
      te.par %j = 64 block {
        %2 = te.view %s[%j] : !te.buffer<64xf32>
        %3 = te.view %t[63 - %j] : !te.buffer<64xf32, shared>
        %4 = arith.addf %2, %3 : f32
        te.bind %4, %s[%j] : !te.buffer<64xf32>
      }
    }
    te.par %j = 64 block {
      %5 = te.view %s[%j] : !te.buffer<64xf32>
      te.bind %5, %y[%b, %j] : !te.buffer<8x64xf32>
    }
  }
  func.return
}

// PREFETCH: %t = te.new : !te.buffer<3x64xf32, shared>
// PREFETCH-NEXT: te.seq %k_ahead = 2 {
// PREFETCH: te.copy_async 1, %x[%b, %k_ahead, %j_1] : !te.buffer<8x32x64xf32> to %t[%k_ahead mod 3, %j_1] : !te.buffer<3x64xf32, shared>
// PREFETCH: te.commit
// PREFETCH: te.seq %k = 32 {
// PREFETCH-NEXT: te.wait 1

// PREFETCH-NEXT: te.if 29 - %k >= 0 {
// PREFETCH-NEXT: %k_ahead_1 = te.apply %k + 2
// PREFETCH: te.commit
// PREFETCH: te.view %t[%k mod 3, 63 - %j_3]
// PREFETCH: te.wait 0

// LOWER: te.seq %k = 32 {
// LOWER-NEXT: te.wait 1
// LOWER-NEXT: te.barrier block
// LOWER-NOT: te.barrier
// LOWER: func.return

// CUDA: mugraph::te::copy_async<1>(&t[
// CUDA: mugraph::te::commit_copies();
// CUDA: mugraph::te::wait_for_copies<1>();
// CUDA-NEXT: __syncthreads();
// CUDA: mugraph::te::wait_for_copies<0>();
