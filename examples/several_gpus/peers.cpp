// Two GPUs of one host call a library of mg-compile --peers: mlp.mlir says how it is made. No NCCL, no launcher.
//
// Each GPU has a thread and its parts of the weights. The GPUs address one another's memory once this process has
// allowed it; the library lays tensors out there for the other one to read, and keeps calls in order.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "mlp.h"

namespace {

constexpr int kDevices = 2, kRows = 16, kHidden = 512, kInner = 1024, kPart = kInner / kDevices, kCalls = 20;
using Matrix = std::vector<float>;

void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

Matrix drawn(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  Matrix values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Columns [start, start + width) of a matrix.
Matrix columns(Matrix const& whole, int rows, int all, int start, int width) {
  Matrix part;
  for (int row = 0; row < rows; ++row) {
    auto const first = whole.begin() + row * all + start;
    part.insert(part.end(), first, first + width);
  }
  return part;
}

void* on_device(Matrix const& values) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, values.size() * sizeof(float)), "memory of a tensor");
  check(cudaMemcpy(memory, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "copying a tensor");
  return memory;
}

// What all GPUs together compute, by one thread.
std::vector<double> expected(Matrix const& x, Matrix const& up, Matrix const& gate, Matrix const& down) {
  std::vector<double> y(x.begin(), x.end());
  for (int row = 0; row < kRows; ++row) {
    for (int j = 0; j < kInner; ++j) {
      double u = 0, g = 0;
      for (int k = 0; k < kHidden; ++k) {
        u += double(x[row * kHidden + k]) * up[k * kInner + j];
        g += double(x[row * kHidden + k]) * gate[k * kInner + j];
      }
      double const held = u * g / (1 + std::exp(-g));
      for (int n = 0; n < kHidden; ++n) y[row * kHidden + n] += held * down[j * kHidden + n];
    }
  }
  return y;
}

struct Arguments {
  void *x, *up, *gate, *down, *y, *workspace;
  cudaStream_t stream;
};

}  // namespace

int main() {
  int found = 0;
  check(cudaGetDeviceCount(&found), "counting GPUs");
  if (found < kDevices) {
    std::fprintf(stderr, "this example needs %d GPUs; this machine has %d\n", kDevices, found);
    return 1;
  }
  // Memory of each GPU that the other one addresses: zero before the first call.
  std::vector<void*> peers(kDevices);
  for (int device = 0; device < kDevices; ++device) {
    check(cudaSetDevice(device), "choosing a GPU");
    for (int other = 0; other < kDevices; ++other) {
      if (other != device) check(cudaDeviceEnablePeerAccess(other, 0), "addressing the memory of the other GPU");
    }
    check(cudaMalloc(&peers[device], mlp_peers_bytes()), "memory that GPUs share");
    check(cudaMemset(peers[device], 0, mlp_peers_bytes()), "clearing it");
    check(cudaDeviceSynchronize(), "clearing it");
  }
  Matrix const x = drawn(kRows * kHidden, 1), up = drawn(kHidden * kInner, 2), gate = drawn(kHidden * kInner, 3),
               down = drawn(kInner * kHidden, 4);
  std::vector<double> const exact = expected(x, up, gate, down);
  // All memory is there before a GPU waits for the other one: an allocation may wait for both.
  std::vector<Arguments> arguments(kDevices);
  for (int device = 0; device < kDevices; ++device) {
    check(cudaSetDevice(device), "choosing a GPU");
    Arguments& own = arguments[device];
    check(cudaStreamCreate(&own.stream), "a stream");
    own.x = on_device(x);
    own.up = on_device(columns(up, kHidden, kInner, device * kPart, kPart));
    own.gate = on_device(columns(gate, kHidden, kInner, device * kPart, kPart));
    auto const rows = down.begin() + device * kPart * kHidden;
    own.down = on_device(Matrix(rows, rows + kPart * kHidden));
    own.y = on_device(Matrix(kRows * kHidden, NAN));
    check(cudaMalloc(&own.workspace, mlp_workspace_bytes() + 1), "the workspace");
  }
  std::vector<int> failed(kDevices);
  std::vector<std::thread> threads;
  for (int device = 0; device < kDevices; ++device) {
    threads.emplace_back([&, device] {
      check(cudaSetDevice(device), "choosing a GPU");
      Arguments const& own = arguments[device];
      for (int call = 0; call < kCalls; ++call) {
        int const code = mlp_run(own.x, own.up, own.gate, own.down, own.y, peers.data(), device, own.workspace,
                                 mlp_workspace_bytes(), own.stream);
        if (code != MUGRAPH_SUCCESS) {
          std::fprintf(stderr, "GPU %d: %s\n", device, mlp_error());
          std::exit(1);
        }
      }
      check(cudaStreamSynchronize(own.stream), "running");
      Matrix y(kRows * kHidden);
      check(cudaMemcpy(y.data(), own.y, y.size() * sizeof(float), cudaMemcpyDeviceToHost), "the result");
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (!(std::abs(y[i] - exact[i]) < 1e-4)) failed[device] = 1;
      }
      std::printf("GPU %d is %s after %d calls\n", device, failed[device] ? "wrong" : "right", kCalls);
    });
  }
  for (std::thread& each : threads) each.join();
  return failed[0] | failed[1];
}
