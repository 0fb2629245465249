// Kernel launches whose errors are reported where they happen. Host only.
#pragma once

#include <cstddef>
#include <string>

#include "check.h"

namespace mugraph {

// What a kernel may use without asking: more dynamic shared memory has to be allowed for each kernel.
inline constexpr std::size_t kDefaultSharedMemory = 48 * 1024;

// Launches `kernel` with `args`, converted to its parameters, and throws std::runtime_error where the launch fails.
// Errors of the kernel's execution appear, as always in CUDA, at a later call. `smem_bytes` is dynamic shared memory.
template <class... Parameters, class... Arguments>
void launch(char const* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t smem_bytes,
            cudaStream_t stream, Arguments... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "one argument for each parameter of the kernel");
  if (smem_bytes > kDefaultSharedMemory) {
    const cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(smem_bytes));
    if (status != cudaSuccess) {
      const std::string what = std::string("allowing kernel '") + name + "' " + std::to_string(smem_bytes) +
                               " bytes of shared memory (compile for a device that has as much, or use smaller tiles)";
      static_cast<void>(cudaGetLastError());
      check(status, what.c_str());
    }
  }
  const auto start = [&](Parameters... parameters) {
    void* pointers[] = {const_cast<void*>(static_cast<void const*>(&parameters))..., nullptr};
    return cudaLaunchKernel(kernel, grid, block, pointers, smem_bytes, stream);
  };
  const cudaError_t status = start(args...);
  if (status != cudaSuccess) {
    const std::string what = std::string("launching kernel '") + name + "' with grid (" + std::to_string(grid.x) +
                             ", " + std::to_string(grid.y) + ", " + std::to_string(grid.z) + "), block (" +
                             std::to_string(block.x) + ", " + std::to_string(block.y) + ", " +
                             std::to_string(block.z) + ") and " + std::to_string(smem_bytes) +
                             " bytes of shared memory";
    static_cast<void>(cudaGetLastError());
    check(status, what.c_str());
  }
}

}  // namespace mugraph
