// Runs the compiled µGraph rms_norm(x) · w on random inputs and checks it against double precision.
#include <rmsnorm_linear.h>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

constexpr int kRows = 16;
constexpr int kInner = 4096;
constexpr int kColumns = 6144;
constexpr double kTolerance = 2e-3;

// Ends the program with a sentence where a call of CUDA failed.
void check(cudaError_t status, char const *what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(2);
}

std::vector<__half> random_tensor(std::size_t count, float scale, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<__half> values(count);
  for (__half &value : values) value = __float2half(normal(generator));
  return values;
}

__half *to_device(std::vector<__half> const &values) {
  __half *pointer = nullptr;
  check(cudaMalloc(reinterpret_cast<void **>(&pointer), values.size() * sizeof(__half)), "allocating");
  check(cudaMemcpy(pointer, values.data(), values.size() * sizeof(__half), cudaMemcpyHostToDevice), "copying");
  return pointer;
}

std::vector<double> reference(std::vector<__half> const &x, std::vector<__half> const &w) {
  std::vector<double> result(std::size_t{kRows} * kColumns, 0.0);
  for (int row = 0; row < kRows; ++row) {
    double squares = 0.0;
    for (int k = 0; k < kInner; ++k) {
      double const value = __half2float(x[row * kInner + k]);
      squares += value * value;
      for (int column = 0; column < kColumns; ++column) {
        result[row * kColumns + column] += value * __half2float(w[std::size_t{1} * k * kColumns + column]);
      }
    }
    for (int column = 0; column < kColumns; ++column) {
      result[row * kColumns + column] /= std::sqrt(squares / kInner);
    }
  }
  return result;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "no NVIDIA GPU on this machine\n");
    return 2;
  }
  std::vector<__half> const x = random_tensor(std::size_t{kRows} * kInner, 1.0f, 1);
  std::vector<__half> const w = random_tensor(std::size_t{kInner} * kColumns, 1.0f / 64, 2);
  std::vector<__half> result(std::size_t{kRows} * kColumns);

  __half *device_x = to_device(x);
  __half *device_w = to_device(w);
  // Starts as NaN, so that an element that no thread writes cannot pass.
  __half *device_result = to_device(result);
  check(cudaMemset(device_result, 0xff, result.size() * sizeof(__half)), "filling");
  std::size_t const workspace_bytes = rmsnorm_linear_workspace_bytes();
  void *workspace = nullptr;
  if (workspace_bytes > 0) check(cudaMalloc(&workspace, workspace_bytes), "allocating");

  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "making a stream");
  check(cudaDeviceSynchronize(), "preparing");
  if (rmsnorm_linear_run(device_x, device_w, device_result, workspace, workspace_bytes, stream) != MUGRAPH_SUCCESS) {
    std::fprintf(stderr, "%s\n", rmsnorm_linear_error());
    return 1;
  }
  check(cudaStreamSynchronize(stream), "running");
  check(cudaMemcpy(result.data(), device_result, result.size() * sizeof(__half), cudaMemcpyDeviceToHost), "copying");

  std::vector<double> const expected = reference(x, w);
  double largest = 0.0;
  double error = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = std::fmax(largest, std::fabs(expected[i]));
    double const difference = std::fabs(__half2float(result[i]) - expected[i]);
    // A NaN is larger than any error.
    error = difference <= error ? error : difference;
  }
  std::printf("largest error %.2e of %.2f\n", error, largest);
  return error <= kTolerance * largest ? 0 : 1;
}
