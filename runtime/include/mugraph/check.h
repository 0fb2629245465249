// Errors of the CUDA runtime as C++ exceptions with a sentence for the user. Host only.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace mugraph {

// Throws std::runtime_error where `status` is an error; `what` says what was being done ("launching kernel 'custom0'").
inline void check(cudaError_t status, char const* what) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string("mugraph: ") + what + " failed: " + cudaGetErrorString(status) + " (" +
                           cudaGetErrorName(status) + ").");
}

}  // namespace mugraph
