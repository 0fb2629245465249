// Self-test of mugraph::launch and mugraph::check: arguments arrive, large shared memory is allowed, errors are told,
// and kernels that overlap with the one before them wait for it.
#include "harness.h"

using namespace harness;

__global__ void fill_through_shared(float* target, int count, float value) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  float* const staged = reinterpret_cast<float*>(shared_memory);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    staged[i] = value + static_cast<float>(blockIdx.x);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    target[static_cast<int>(blockIdx.x) * count + i] = staged[count - 1 - i];
  }
}

// target[i] = source[count - 1 - i] + 1, of what the kernel before wrote; early blocks have long been waiting by then.
__global__ void add_to_reversed(float* target, float const* source, int count) {
  mugraph::tb::grid_launch();
  mugraph::tb::grid_wait();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) target[i] = source[count - 1 - i] + 1.0f;
}

// A chain in which each kernel reads what other blocks of the kernel before wrote, and overwrites what that one read.
void test_overlapping_kernels() {
  constexpr int kCount = 32 * 1024, kKernels = 21;
  float* buffers[2] = {};
  for (float*& buffer : buffers) mugraph::check(cudaMalloc(&buffer, kCount * sizeof(float)), "allocating");
  std::vector<float> host(kCount);
  for (int i = 0; i < kCount; ++i) host[i] = static_cast<float>(i % 1000);
  mugraph::check(cudaMemcpy(buffers[0], host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice), "writing");
  for (int kernel = 0; kernel < kKernels; ++kernel) {
    mugraph::launch("add_to_reversed", add_to_reversed, dim3(kCount / 256), dim3(256), 0,
                    mugraph::overlapping(cudaStream_t{}), buffers[(kernel + 1) % 2], buffers[kernel % 2], kCount);
  }
  mugraph::check(cudaDeviceSynchronize(), "running add_to_reversed");
  std::vector<float> results(kCount);
  mugraph::check(cudaMemcpy(results.data(), buffers[kKernels % 2], kCount * sizeof(float), cudaMemcpyDeviceToHost),
                 "reading");
  bool is_right = true;
  for (int i = 0; i < kCount; ++i) is_right = is_right && results[i] == host[kCount - 1 - i] + kKernels;
  report(is_right, "overlapping", "a kernel did not wait for the one before it");
}

template <class Launch>
std::string message_of(Launch const& launch) {
  try {
    launch();
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return "";
}

void expect(std::string const& message, char const* part) {
  report(message.find(part) != std::string::npos, part, message.empty() ? "no exception" : message.c_str());
}

int main() {
  constexpr int kCount = 16 * 1024;  // 64 KiB a block
  float* device = nullptr;
  mugraph::check(cudaMalloc(&device, 3 * kCount * sizeof(float)), "allocating");
  // Numbers are converted to the kernel's parameter types: an int and a double become an int and a float.
  mugraph::launch("fill_through_shared", fill_through_shared, dim3(3), dim3(96), kCount * sizeof(float),
                  cudaStream_t{}, device, kCount, 0.5);
  mugraph::check(cudaDeviceSynchronize(), "running fill_through_shared");
  std::vector<float> host(3 * kCount);
  mugraph::check(cudaMemcpy(host.data(), device, host.size() * sizeof(float), cudaMemcpyDeviceToHost), "reading");
  bool is_right = true;
  for (int i = 0; i < 3 * kCount; ++i) is_right = is_right && host[i] == 0.5f + static_cast<float>(i / kCount);
  report(is_right, "launch", "the kernel did not get its arguments");

  const std::string block = message_of([&] {
    mugraph::launch("too_wide", fill_through_shared, dim3(1), dim3(2048), 0, cudaStream_t{}, device, 1, 1.0f);
  });
  expect(block, "mugraph: launching kernel 'too_wide' with grid (1, 1, 1), block (2048, 1, 1) and 0 bytes");
  const std::string shared = message_of([&] {
    mugraph::launch("too_big", fill_through_shared, dim3(1), dim3(32), 1 << 20, cudaStream_t{}, device, 1, 1.0f);
  });
  expect(shared, "mugraph: allowing kernel 'too_big' 1048576 bytes of shared memory");
  expect(message_of([] { mugraph::check(cudaErrorInvalidConfiguration, "doing this"); }),
         "mugraph: doing this failed: invalid configuration argument (cudaErrorInvalidConfiguration).");
  report(message_of([] { mugraph::check(cudaGetLastError(), "going on"); }).empty(), "launch",
         "a refused launch leaves an error behind");
  const std::string overlapping = message_of(test_overlapping_kernels);
  report(overlapping.empty(), "overlapping", overlapping.c_str());
  return finish("launch_test");
}
