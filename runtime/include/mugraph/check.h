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

// Throws std::runtime_error unless the value of an extent is a multiple of `multiple`, from 0 to `largest`.
inline void check_extent(char const* name, std::int64_t value, std::int64_t largest, std::int64_t multiple) {
  if (value >= 0 && value <= largest && value % multiple == 0) return;
  throw std::runtime_error(std::string("mugraph: ") + name + " is " + std::to_string(value) + "; it may be 0 to " +
                           std::to_string(largest) + ", in steps of " + std::to_string(multiple) + ".");
}

}  // namespace mugraph
