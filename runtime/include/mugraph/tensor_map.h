// Tensor maps, which tell bulk copies about a tensor in device memory. Host only.
//
// A map holds the tensor's address, so one is made whenever a function is called with another pointer. The driver's
// function is looked up through the runtime: nothing else has to be linked.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "check.h"

namespace mugraph {

// Tensor map of a tensor of `rank` dimensions, the contiguous one first: extents in elements, strides of the others in
// bytes, and the extents of the box over which one copy reaches. Along each dimension it moves every `steps`-th element
// of those.
template <int rank>
class TensorMap {
 public:
  TensorMap(char const* name, CUtensorMapDataType type, std::array<uint64_t, rank> extents,
            std::array<uint64_t, rank - 1> strides, std::array<uint32_t, rank> box, CUtensorMapSwizzle swizzle,
            std::array<uint32_t, rank> steps = {})
      : name_(name), type_(type), extents_(extents), box_(box), steps_(steps), swizzle_(swizzle) {
    for (int i = 0; i + 1 < rank; ++i) strides_[i] = strides[i];
  }

  // The map of the first elements of the tensor at `base`, as many along each dimension.
  CUtensorMap const& at(void const* base, std::array<uint64_t, rank> extents) {
    if (extents != extents_) base_ = nullptr;
    extents_ = extents;
    return at(base);
  }

  // The same of a tensor whose strides a call says, too.
  CUtensorMap const& at(void const* base, std::array<uint64_t, rank> extents, std::array<uint64_t, rank - 1> strides) {
    for (int i = 0; i + 1 < rank; ++i) {
      if (strides[i] != strides_[i]) base_ = nullptr;
      strides_[i] = strides[i];
    }
    return at(base, extents);
  }

  // The map of the tensor at `base`, a multiple of 16 bytes. It lives in this object until the next call.
  CUtensorMap const& at(void const* base) {
    if (base == base_) return map_;
    std::array<cuuint64_t, rank> extents;
    std::array<cuuint64_t, rank> strides;
    std::array<cuuint32_t, rank> box, steps;
    for (int i = 0; i < rank; ++i) {
      extents[i] = extents_[i];
      strides[i] = strides_[i];
      box[i] = box_[i];
      steps[i] = steps_[i] == 0 ? 1 : steps_[i];
    }
    const CUresult status =
        encoder()(&map_, type_, rank, const_cast<void*>(base), extents.data(), strides.data(), box.data(),
                  steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
      base_ = nullptr;
      throw std::runtime_error(std::string("mugraph: the driver makes no tensor map of '") + name_ + "' (CUresult " +
                               std::to_string(static_cast<int>(status)) +
                               "); its address must be a multiple of 16 bytes in device memory.");
    }
    base_ = base;
    return map_;
  }

 private:
  using Encoder = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, cuuint64_t const*,
                               cuuint64_t const*, cuuint32_t const*, cuuint32_t const*, CUtensorMapInterleave,
                               CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

  static Encoder encoder() {
    static const Encoder found = [] {
      void* function = nullptr;
      cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
      const cudaError_t status =
          cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
#else
      const cudaError_t status =
          cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
      check(status, "looking up cuTensorMapEncodeTiled in the driver");
      if (result != cudaDriverEntryPointSuccess || function == nullptr) {
        throw std::runtime_error("mugraph: the driver has no cuTensorMapEncodeTiled; install one for CUDA 12 or newer.");
      }
      return reinterpret_cast<Encoder>(function);
    }();
    return found;
  }

  char const* name_;
  CUtensorMapDataType type_;
  std::array<uint64_t, rank> extents_;
  std::array<uint64_t, rank> strides_{};
  std::array<uint32_t, rank> box_;
  std::array<uint32_t, rank> steps_;
  CUtensorMapSwizzle swizzle_;
  void const* base_ = nullptr;
  CUtensorMap map_{};
};

}  // namespace mugraph
