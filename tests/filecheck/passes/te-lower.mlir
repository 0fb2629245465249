// RUN: mg-opt %s --te-map | filecheck %s --check-prefix MAP
// RUN: mg-opt %s --te-map --te-promote | filecheck %s --check-prefix PROMOTE
// RUN: mg-opt %s --te-map --te-promote --te-vectorize | filecheck %s --check-prefix VECTOR
// RUN: mg-opt %s --te-map --te-promote --te-vectorize --te-sync | filecheck %s --check-prefix SYNC
// RUN: mg-opt %s --te-lower -t cuda | filecheck %s --check-prefix CUDA

// Rows in reverse: neighbours exchange elements through the buffer of a block.
func.func @reverse(%x: !te.buffer<8x512xf16>, %y: !te.buffer<8x512xf16> {te.result}) {
  te.par %row = 8 grid {
    %v = te.new : !te.buffer<512xf16, shared>
    te.par %j = 512 block {
      %0 = te.view %x[%row, %j] : !te.buffer<8x512xf16>
      te.bind %0, %v[%j] : !te.buffer<512xf16, shared>
    }
    te.par %j = 512 block {
      %1 = te.view %v[511 - %j] : !te.buffer<512xf16, shared>
      te.bind %1, %y[%row, %j] : !te.buffer<8x512xf16>
    }
  }
  func.return
}

// MAP: te.kernel "reverse" %block = 8
// MAP: te.threads %thread = 256
// MAP: te.step "par 512 j"
// MAP: te.apply %thread * 2
// MAP: te.iteration [%{{.*}}] of [512]

// PROMOTE: te.kernel "reverse" %block = 8 smem 1024
// PROMOTE: te.new {te.offset = 0 : i64}
// PROMOTE: te.threads

// VECTOR: te.load {{.*}}!te.buffer<2xf16, register>, %x
// VECTOR: te.store {{.*}}!te.buffer<2xf16, register>, %v

// SYNC-NOT: te.barrier
// SYNC: te.store
// SYNC: te.barrier block
// SYNC-NOT: te.barrier

// CUDA: __global__ void __launch_bounds__(256) reverse_kernel(mugraph::half_t const* __restrict__ x, mugraph::half_t* __restrict__ y)
// CUDA: mugraph::te::copy<2>(x_vector, &x[
// CUDA: __syncthreads();
// CUDA: mugraph::launch("reverse_kernel", reverse_kernel, dim3(8), dim3(256), 1024, stream, x, y);
