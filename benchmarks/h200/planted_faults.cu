// Small kernels with one fault each, and two without: what compute-sanitizer's tools see on the GPU at hand.
//
//     planted_faults NAME
//
// Shared memory is filled by plain stores, by cp.async and by bulk copies (the instructions behind TMA).
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kThreads = 128;
constexpr int kBytes = kThreads * 4;

__device__ std::uint32_t shared_address(void const* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ void init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ void arrive(std::uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(shared_address(barrier))
               : "memory");
}

__device__ void wait(std::uint64_t* barrier) {
  asm volatile(
      "{\n .reg .pred done;\n again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n @!done bra again;\n}" ::"r"(
          shared_address(barrier))
      : "memory");
}

__device__ void bulk_copy(void* to, void const* from, std::uint64_t* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1; }" ::"r"(
                   shared_address(barrier)),
               "n"(kBytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared_address(to)),
      "l"(from), "n"(kBytes), "r"(shared_address(barrier))
      : "memory");
}

__global__ void store_past_the_end(int* out) { out[threadIdx.x + kThreads] = 1; }

__global__ void plain_race(int* out) {
  __shared__ int values[kThreads];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

// Reads what another thread's cp.async wrote, with its own waited for and no barrier.
__global__ void async_copy_race(int const* in, int* out) {
  __shared__ int values[kThreads];
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(values + threadIdx.x)),
               "l"(in + threadIdx.x)
               : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  out[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

// One thread copies in bulk; all wait for it to land, or do not.
template <bool kWaits>
__global__ void bulk_copy_in(int const* in, int* out) {
  __shared__ alignas(16) int values[kThreads];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) bulk_copy(values, in, &full);
  if (kWaits) wait(&full);
  out[threadIdx.x] = values[threadIdx.x];
  if (!kWaits) wait(&full);
}

// A warp stores, the others read: behind an mbarrier that says so, or not.
template <bool kWaits>
__global__ void stores_behind_an_mbarrier(int* out) {
  __shared__ int values[32];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    values[threadIdx.x] = threadIdx.x;
    arrive(&full);
  } else {
    if (kWaits) wait(&full);
    out[threadIdx.x] = values[31 - threadIdx.x % 32];
  }
}

__global__ void divergent_barrier(int* out) {
  if (threadIdx.x % 32 < 24) __syncthreads();
  out[threadIdx.x] = threadIdx.x;
}

__global__ void read_of_unwritten(int const* in, int* out) { out[threadIdx.x] = in[threadIdx.x] + 1; }

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  char const* const name = arguments[1];
  auto const is = [&](char const* other) { return std::strcmp(name, other) == 0; };
  int *written, *unwritten, *out;
  cudaMalloc(&written, kBytes);
  cudaMemset(written, 1, kBytes);
  cudaMalloc(&unwritten, kBytes);
  cudaMalloc(&out, kBytes);
  if (is("none-mbarrier")) stores_behind_an_mbarrier<true><<<1, kThreads>>>(out);
  else if (is("none-bulk")) bulk_copy_in<true><<<1, kThreads>>>(written, out);
  else if (is("store-past-the-end")) store_past_the_end<<<1, kThreads>>>(out);
  else if (is("bulk-copy-past-the-end")) bulk_copy_in<true><<<1, kThreads>>>(out + kThreads - 4, written);
  else if (is("plain-race")) plain_race<<<1, kThreads>>>(out);
  else if (is("async-copy-race")) async_copy_race<<<1, kThreads>>>(written, out);
  else if (is("bulk-copy-race")) bulk_copy_in<false><<<1, kThreads>>>(written, out);
  else if (is("mbarrier-race")) stores_behind_an_mbarrier<false><<<1, kThreads>>>(out);
  else if (is("divergent-barrier")) divergent_barrier<<<1, kThreads>>>(out);
  else if (is("read-of-unwritten")) read_of_unwritten<<<1, kThreads>>>(unwritten, out);
  else if (is("bulk-copy-of-unwritten")) bulk_copy_in<true><<<1, kThreads>>>(unwritten, out);
  else return 2;
  cudaError_t const code = cudaDeviceSynchronize();
  std::printf("ran 1 calls: %s\n", cudaGetErrorString(code));
  return 0;
}
