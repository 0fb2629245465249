// Weights and state of an ahead-of-time compiled model in device memory. Host only; behind the generated header.
//
// Weights come from safetensors files by name, once. A state is what calls change, such as a cache: one for each
// sequence that is generated. Nothing throws out of these functions; failures are codes and sentences as in
// c_interface.h.
#pragma once

#include <cuda_runtime.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "c_interface.h"
#include "safetensors.h"

namespace mugraph {
namespace c_interface {

constexpr std::size_t kPlacement = 256;
// Bytes that are read at a time.
constexpr std::size_t kPart = std::size_t{64} << 20;
constexpr int kMaxRank = 8;

// A tensor that a file must have, row-major.
struct FileTensor {
  char const* name;
  char const* dtype;
  int rank;
  std::int64_t shape[kMaxRank];
  std::size_t bytes;
};

// A tensor that calls change. `initial`: which file tensor it starts as, or -1 for zeros. `in_place`: kernels write to
// its own memory; else its new value has memory of its own, and is copied back behind the kernels.
struct StateTensor {
  char const* name;
  std::size_t bytes;
  int initial;
  bool in_place;
};

// One allocation on the current device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory const&) = delete;
  DeviceMemory& operator=(DeviceMemory const&) = delete;
  ~DeviceMemory() { cudaFree(memory_); }

  cudaError_t allocate(std::size_t bytes) { return cudaMalloc(&memory_, bytes == 0 ? 1 : bytes); }
  char* at(std::size_t offset) const { return static_cast<char*>(memory_) + offset; }

 private:
  void* memory_ = nullptr;
};

inline std::size_t placed(std::size_t bytes) { return (bytes + kPlacement - 1) / kPlacement * kPlacement; }

struct Weights {
  DeviceMemory memory;
  std::vector<void const*> pointers;
};

struct State {
  DeviceMemory memory;
  std::vector<StateTensor> tensors;
  std::vector<std::size_t> offsets;
  std::size_t moved = 0;  // bytes of the tensors that are copied back, which are first
  std::size_t bytes = 0;  // of all; the new values of the first lie behind

  void const* now(int index) const { return memory.at(offsets[index]); }
  void* next(int index) const { return memory.at(offsets[index] + (tensors[index].in_place ? 0 : bytes)); }
};

inline int cuda_failure(cudaError_t status, char const* what) {
  return fail(MUGRAPH_CUDA_ERROR, "%s failed: %s (%s).", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

// What `function` returns; of what it throws a code.
template <class Function>
int guarded(Function const& function) noexcept {
  try {
    return function();
  } catch (safetensors::Error const& error) {
    return fail(MUGRAPH_INVALID_WEIGHTS, "%s", error.what());
  } catch (std::exception const& error) {
    return fail(MUGRAPH_CUDA_ERROR, "%s", error.what());
  }
}

// The tensor of the files that is expected; throws where there is none, or another.
inline safetensors::Tensor const& found_in(safetensors::Files const& files, FileTensor const& expected) {
  safetensors::Tensor const* const found = files.find(expected.name);
  std::string const name = std::string("'") + expected.name + "'";
  if (found == nullptr) {
    std::string text = "no tensor " + name + " in";
    for (std::string const& path : files.paths()) text += (path == files.paths().front() ? " " : ", ") + path;
    if (!files.tensors().empty()) text += "; there is for instance '" + files.tensors().begin()->first + "'";
    throw safetensors::Error(text + ".");
  }
  std::vector<std::int64_t> const shape(expected.shape, expected.shape + expected.rank);
  // A number without dimensions is a tensor of one element.
  std::vector<std::int64_t> const own = found->shape.empty() ? std::vector<std::int64_t>{1} : found->shape;
  if (found->dtype != expected.dtype || own != shape || found->bytes != expected.bytes) {
    throw safetensors::Error(name + " of " + files.path(*found) + " is " + found->dtype + " " +
                             safetensors::extents(found->shape) + " of " + std::to_string(found->bytes) +
                             " bytes; the model was compiled for " + expected.dtype + " " +
                             safetensors::extents(shape) + " of " + std::to_string(expected.bytes) + " bytes.");
  }
  return *found;
}

// Checks every tensor of the files, and then copies them to the current device.
template <class Loaded, std::size_t kCount>
int load_weights(char const* const* paths, std::size_t count, FileTensor const (&expected)[kCount], Loaded** result) {
  if (result == nullptr) return fail(MUGRAPH_NULL_POINTER, "weights is NULL; pass where to put the pointer.");
  *result = nullptr;
  if (paths == nullptr) return fail(MUGRAPH_NULL_POINTER, "files is NULL; pass the paths of safetensors files.");
  return guarded([&]() -> int {
    safetensors::Files const files(std::vector<std::string>(paths, paths + count));
    std::vector<safetensors::Tensor const*> tensors;
    std::vector<std::size_t> offsets;
    std::size_t total = 0;
    for (FileTensor const& each : expected) {
      tensors.push_back(&found_in(files, each));
      offsets.push_back(total);
      total += placed(each.bytes);
    }
    auto made = std::unique_ptr<Loaded>(new Loaded);
    if (cudaError_t const status = made->memory.allocate(total); status != cudaSuccess) {
      return cuda_failure(status, ("allocating " + std::to_string(total) + " bytes for weights").c_str());
    }
    cudaError_t status = cudaSuccess;
    for (std::size_t i = 0; i < kCount; ++i) {
      char* const target = made->memory.at(offsets[i]);
      made->pointers.push_back(target);
      files.read(*tensors[i], kPart, [&](char const* bytes, std::size_t offset, std::size_t size) {
        if (status == cudaSuccess) status = cudaMemcpy(target + offset, bytes, size, cudaMemcpyHostToDevice);
      });
      if (status != cudaSuccess) return cuda_failure(status, "copying weights to the device");
    }
    *result = made.release();
    return MUGRAPH_SUCCESS;
  });
}

// Makes every tensor of a state what it is before the first call, on the stream.
inline int reset_state(Weights const* weights, State* state, cudaStream_t stream) {
  if (state == nullptr) return fail(MUGRAPH_NULL_POINTER, "state is NULL; make one first.");
  for (std::size_t i = 0; i < state->tensors.size(); ++i) {
    StateTensor const& tensor = state->tensors[i];
    char* const target = state->memory.at(state->offsets[i]);
    cudaError_t const status =
        tensor.initial < 0 ? cudaMemsetAsync(target, 0, tensor.bytes, stream)
                           : cudaMemcpyAsync(target, weights->pointers[static_cast<std::size_t>(tensor.initial)],
                                             tensor.bytes, cudaMemcpyDeviceToDevice, stream);
    if (status != cudaSuccess) return cuda_failure(status, "resetting a state");
  }
  return MUGRAPH_SUCCESS;
}

// A state of its own memory on the current device; `weights` has what it starts as, or is null where that is zeros.
template <class Made, std::size_t kCount>
int new_state(Weights const* weights, StateTensor const (&tensors)[kCount], Made** result) {
  if (result == nullptr) return fail(MUGRAPH_NULL_POINTER, "state is NULL; pass where to put the pointer.");
  *result = nullptr;
  return guarded([&]() -> int {
    auto made = std::unique_ptr<Made>(new Made);
    made->tensors.assign(tensors, tensors + kCount);
    made->offsets.resize(kCount);
    for (bool const in_place : {false, true}) {
      for (std::size_t i = 0; i < kCount; ++i) {
        if (tensors[i].in_place != in_place) continue;
        made->offsets[i] = made->bytes;
        made->bytes += placed(tensors[i].bytes);
      }
      if (!in_place) made->moved = made->bytes;
    }
    std::size_t const total = made->bytes + made->moved;
    if (cudaError_t const status = made->memory.allocate(total); status != cudaSuccess) {
      return cuda_failure(status, ("allocating " + std::to_string(total) + " bytes for a state").c_str());
    }
    if (int const code = reset_state(weights, made.get(), nullptr); code != MUGRAPH_SUCCESS) return code;
    if (cudaError_t const status = cudaStreamSynchronize(nullptr); status != cudaSuccess) {
      return cuda_failure(status, "resetting a state");
    }
    *result = made.release();
    return MUGRAPH_SUCCESS;
  });
}

// Copies back the new values that kernels did not write where they belong: one copy on the stream, or none.
inline int keep(State const& state, cudaStream_t stream) {
  if (state.moved == 0) return MUGRAPH_SUCCESS;
  cudaError_t const status = cudaMemcpyAsync(state.memory.at(0), state.memory.at(state.bytes), state.moved,
                                             cudaMemcpyDeviceToDevice, stream);
  return status == cudaSuccess ? static_cast<int>(MUGRAPH_SUCCESS) : cuda_failure(status, "copying a state");
}

}  // namespace c_interface
}  // namespace mugraph
