// Errors of the CUDA runtime as C++ exceptions with a sentence for the user. Host only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace mugraph {

// Throws std::runtime_error where `status` is an error; `what` says what was being done ("launching kernel 'custom0'").
inline void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("mugraph: ") + what + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ").");
}

// Throws std::runtime_error unless `pointer` is a multiple of `bytes`, a power of two; `what` names the tensor ("input 0
// (x)"). Kernels access vectors of so many bytes, and a misaligned one would end the process's CUDA context.
inline void check_alignment(void const* pointer, std::size_t bytes, char const* what) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0) return;
  throw std::runtime_error(std::string("mugraph: ") + what + " starts at an address that is no multiple of " +
                           std::to_string(bytes) + " bytes, as the kernels were compiled for; pass an aligned pointer, " +
                           "or compile with a smaller mugraph.alignment for it.");
}

}  // namespace mugraph
