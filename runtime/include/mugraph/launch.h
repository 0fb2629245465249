// Kernel launches whose errors are reported where they happen. Host only.
#pragma once

#include <cstddef>
#include <string>

#include "check.h"

namespace mugraph {

// What a kernel may use without asking: more dynamic shared memory has to be allowed for each kernel.
inline constexpr std::size_t kDefaultSharedMemory = 48 * 1024;

// Where kernels are launched; `overlaps` those that may start while the kernel before them still runs, because they
// wait for it themselves (arch/grid_dependency.h). Those that are cooperative start only if all their blocks run at once.
// With `largest_carveout` a multiprocessor keeps all it can of its memory as shared memory: to change that it must be
// idle, so that a block of another kernel could not start beside those that run.
struct Queue {
  cudaStream_t stream;
  bool overlaps = false;
  bool is_cooperative = false;
  bool largest_carveout = false;
  Queue(cudaStream_t stream_) : stream(stream_) {}
  Queue(cudaStream_t stream_, bool overlaps_) : stream(stream_), overlaps(overlaps_) {}
};

inline Queue overlapping(cudaStream_t stream) { return Queue(stream, true); }
inline Queue beside_others(cudaStream_t stream) {
  Queue queue(stream, true);
  queue.largest_carveout = true;
  return queue;
}
inline Queue cooperative(cudaStream_t stream) {
  Queue queue(stream);
  queue.is_cooperative = true;
  return queue;
}

// A kernel as CUDA's functions take it, whatever its parameters are.
#if defined(MUGRAPH_KERNEL)
using Kernel = MUGRAPH_KERNEL;
#else
using Kernel = void const*;
#endif

inline std::string text_of(dim3 extents) {
  return "(" + std::to_string(extents.x) + ", " + std::to_string(extents.y) + ", " + std::to_string(extents.z) + ")";
}

// Launches `kernel` with pointers to its parameters, as `launch` does.
inline void launch_with_pointers(char const* name, Kernel kernel, dim3 grid, dim3 block, std::size_t smem_bytes,
                                 Queue queue, void** pointers) {
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
  cudaError_t status = cudaSuccess;
  if (!queue.overlaps && !queue.is_cooperative) {
    status = cudaLaunchKernel(kernel, grid, block, pointers, smem_bytes, queue.stream);
  } else {
    cudaLaunchAttribute attributes[2]{};
    if (queue.is_cooperative) {
      attributes[0].id = cudaLaunchAttributeCooperative;
      attributes[0].val.cooperative = 1;
    } else {
      attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attributes[0].val.programmaticStreamSerializationAllowed = 1;
    }
    unsigned count = 1;
#if CUDART_VERSION >= 12080  // older headers may lack it; kernels are right without
    if (queue.largest_carveout) {
      attributes[count].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
      attributes[count++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
    }
#endif
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = smem_bytes;
    config.stream = queue.stream;
    config.attrs = attributes;
    config.numAttrs = count;
    status = cudaLaunchKernelExC(&config, kernel, pointers);
  }
  if (status != cudaSuccess) {
    const std::string what = std::string("launching kernel '") + name + "' with grid " + text_of(grid) + ", block " +
                             text_of(block) + " and " + std::to_string(smem_bytes) + " bytes of shared memory";
    static_cast<void>(cudaGetLastError());
    check(status, what.c_str());
  }
}

// Launches `kernel` with `args`, converted to its parameters, and throws std::runtime_error where the launch fails.
// Errors of the kernel's execution appear, as always in CUDA, at a later call. `smem_bytes` is dynamic shared memory.
// This alone is compiled again for other parameters.
template <class... Parameters, class... Arguments>
void launch(char const* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t smem_bytes,
            Queue queue, Arguments... args) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "one argument for each parameter of the kernel");
  const auto start = [&](Parameters... parameters) {
    void* pointers[] = {const_cast<void*>(static_cast<void const*>(&parameters))..., nullptr};
    launch_with_pointers(name, Kernel(kernel), grid, block, smem_bytes, queue, pointers);
  };
  start(args...);
}

}  // namespace mugraph
