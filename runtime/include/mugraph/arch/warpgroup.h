// wgmma: matrix products of a warp group, four warps in a row of which the first has a number divisible by 4 (sm_90a).
//
// The hardware reads operands from shared memory by descriptors: the address of the first element, the swizzle of the
// rows, and two strides. It swizzles addresses as they are, so a swizzled matrix starts at a multiple of 8 rows of the
// swizzle's span. The instructions run behind the program: sums and operands are touched again after wait_products().
// Fields of the descriptor: PTX ISA, "Matrix Descriptor Format".
#pragma once

#include "cute.h"

namespace mugraph {

// A matrix in shared memory as an instruction reads it: element (line, k), lines along m or n.
//
// Rows of kSpan elements, 16 << kSwizzleBits bytes, hold neighbours along k, or along the lines where kTransposed.
// Eight rows make a group, the groups of rows lie kRowGroupBytes apart, and rows side by side kSideBytes.
template <class T, bool kTransposedRows, int kSwizzleBits, int kRowGroupBytes, int kSideBytes>
struct SharedMatrix {
  static_assert(kSwizzleBits >= 1 && kSwizzleBits <= 3, "rows of 32, 64 or 128 bytes are swizzled");
  static constexpr bool kTransposed = kTransposedRows;
  static constexpr int kSpan = (16 << kSwizzleBits) / static_cast<int>(sizeof(T));
  T const* start;
  int offset;  // of the first element from there; known when compiled, so that descriptors differ by a constant

  __device__ __forceinline__ uint64_t descriptor() const {
    constexpr uint32_t kLayout = 4 - kSwizzleBits;  // 1: 128 bytes, 2: 64 bytes, 3: 32 bytes
    constexpr uint64_t kHigh = kLayout << 30 | static_cast<uint32_t>(kRowGroupBytes / 16);
    const uint32_t base = (static_cast<uint32_t>(__cvta_generic_to_shared(start)) & 0x3ffff) >> 4;
    const uint32_t low = (base | static_cast<uint32_t>(kSideBytes / 16) << 16) + offset * sizeof(T) / 16;
    return kHigh << 32 | low;
  }

  // What the hardware reads, for emulation on the host.
  T element(int line, int k) const {
    const int along = kTransposed ? line : k;
    const int row = kTransposed ? k : line;
    const uintptr_t address = reinterpret_cast<uintptr_t>(start + offset) + along % kSpan * sizeof(T) +
                              along / kSpan * kSideBytes + row % 8 * (kSpan * sizeof(T)) + row / 8 * kRowGroupBytes;
    const uintptr_t moved = address >> 3 & ((uintptr_t{1} << kSwizzleBits) - 1) << 4;
    return *reinterpret_cast<T const*>(address ^ moved);
  }
};

// Keeps the compiler from moving what it does with a register across this place.
template <class Sum, int kValues>
__device__ __forceinline__ void pin(Sum (&values)[kValues]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if constexpr (cute::is_same<Sum, float>::value) {
      asm volatile("" : "+f"(values[i])::"memory");
    } else {
      asm volatile("" : "+r"(values[i])::"memory");
    }
  }
#endif
}

template <int kRows, int kSteps, int kWords>
__device__ __forceinline__ void pin(uint32_t (&words)[kRows][kSteps][kWords]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int q = 0; q < kWords; ++q) asm volatile("" : "+r"(words[i][step][q])::"memory");
    }
  }
#endif
}

// Reads words behind a loop whose products take them, from before it, as their left matrix. ptxas of CUDA 13.0 otherwise
// puts the left matrix of another product of the loop into the same registers, if each is finished before the next one is
// issued: all iterations but the first then multiply that. No grid has 0 blocks, so that nothing is stored.
template <class T, int kValues>
__device__ __forceinline__ void keep([[maybe_unused]] T const (&values)[kValues]) {
#if defined(__CUDA_ARCH__)
  static_assert(kValues * sizeof(T) % 4 == 0, "registers are words");
  uint32_t all = 0;
#pragma unroll
  for (int i = 0; i < kValues; i += 4 / sizeof(T)) all ^= *reinterpret_cast<uint32_t const*>(&values[i]);
  asm volatile(
      "{\n.reg .pred never;\n.reg .b32 blocks;\n"
      "mov.u32 blocks, %%nctaid.x;\n"
      "setp.eq.u32 never, blocks, 0;\n"
      "@never st.shared.b32 [blocks], %0;\n}\n" ::"r"(all));
#endif
}

// A number that is the same in all lanes of a warp, and of which the compiler learns that.
__device__ __forceinline__ int uniform(int number) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xffffffffu, number, 0);
#else
  return number;
#endif
}

// Before the first product of a row of them, where registers of sums or operands were touched.
__device__ __forceinline__ void begin_products() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// Before a further product of them whose registers `words` were just written: what is read of memory for later ones may
// come before it.
template <int kWords>
__device__ __forceinline__ void begin_next_product(uint32_t (&words)[kWords]) {
#if defined(__CUDA_ARCH__)
#pragma unroll
  for (int q = 0; q < kWords; ++q) asm volatile("" : "+r"(words[q]));
  asm volatile("wgmma.fence.sync.aligned;");
#endif
}

// The products issued since the last call are one group.
__device__ __forceinline__ void commit_products() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

// Waits until at most kInFlight of the newest groups are unfinished.
template <int kInFlight>
__device__ __forceinline__ void wait_products() {
#if defined(__CUDA_ARCH__)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kInFlight) : "memory");
#endif
}

}  // namespace mugraph
