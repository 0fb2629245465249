// What generated code of tensor expressions uses: vector accesses, swizzles, reductions of a block.
#pragma once

#include <cstdint>
#include <vector>

#include "launch.h"
#include "numbers.h"

#if !defined(__CUDACC__)
#include "arch/async_copy.h"

#define __cluster_dims__(...)
#endif

namespace mugraph {
namespace te {

// All threads of a cluster come here before one goes on, and see what the others have done to memory.
__device__ __forceinline__ void sync_cluster() {
#if defined(__CUDACC__)
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  cluster_barrier();
#endif
}

// Where block `rank` of the cluster has what this block has at a place of its shared memory.
template <class T>
__device__ __forceinline__ T* of_block(T* place, int rank) {
#if defined(__CUDACC__)
  T* found;
  asm("mapa.u64 %0, %1, %2;" : "=l"(found) : "l"(place), "r"(rank));
  return found;
#else
  return in_block(place, rank);
#endif
}

// Division that rounds down, and what it leaves of a positive divisor.
__device__ __forceinline__ constexpr int floor_div(int x, int y) {
  return x / y - (x % y != 0 && (x % y < 0) != (y < 0));
}
__device__ __forceinline__ constexpr int floor_mod(int x, int y) { return x % y + (x % y < 0 ? y : 0); }

// Swizzle<kBits, kBase, kShift> of an offset in elements.  nvcc 13.0 makes the address of element 0
// of some offsets in unrolled loops where bits are masked before they are shifted.
template <int kBits, int kBase, int kShift>
__device__ __forceinline__ constexpr int swizzle(int offset) {
  return offset ^ ((offset >> kShift) & (((1 << kBits) - 1) << kBase));
}

template <int kBytes>
struct Bytes;
template <>
struct Bytes<2> {
  using Type = uint16_t;
};
template <>
struct Bytes<4> {
  using Type = uint32_t;
};
template <>
struct Bytes<8> {
  using Type = uint2;
};
template <>
struct Bytes<16> {
  using Type = uint4;
};

// kCount neighbouring elements at once; both places are multiples of as many bytes.
template <int kCount, class T>
__device__ __forceinline__ void copy(T* target, T const* source) {
  using Word = typename Bytes<kCount * static_cast<int>(sizeof(T))>::Type;
  *reinterpret_cast<Word*>(target) = *reinterpret_cast<Word const*>(source);
}

// kCount neighbouring elements from device to shared memory, which are there when the thread has waited for the group
// that commit_copies() closes next. Fewer than 4 bytes are there at once.
template <int kCount, class T>
__device__ __forceinline__ void copy_async(T* target, T const* source) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes < 4) {
    copy<kCount>(target, source);
  } else {
#if defined(__CUDACC__)
    const uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(target));
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(source) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(source), "n"(kBytes) : "memory");
    }
#else
    mugraph::copy_async<kBytes>(target, source);
#endif
  }
}

// As copy_async where `exists`; zeros otherwise, and the source is not read.
template <int kCount, class T>
__device__ __forceinline__ void copy_async_or_zero(T* target, T const* source, bool exists) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes < 4) {
    using Word = typename Bytes<kBytes>::Type;
    *reinterpret_cast<Word*>(target) = exists ? *reinterpret_cast<Word const*>(source) : Word(0);
  } else {
#if defined(__CUDACC__)
    const uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(target));
    const int bytes = exists ? kBytes : 0;
    if constexpr (kBytes == 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(source), "r"(bytes) : "memory");
    } else {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(source), "n"(kBytes), "r"(bytes)
                   : "memory");
    }
#else
    mugraph::copy_async_or_zero<kBytes>(target, source, exists);
#endif
  }
}

__device__ __forceinline__ void commit_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  tb::commit_group();
#endif
}

template <int kInFlight>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(kInFlight) : "memory");
#else
  tb::wait_group<kInFlight>();
#endif
}

struct Add {
  template <class T>
  __device__ __forceinline__ static T combine(T x, T y) {
    return plus(x, y);
  }
};

// NaN where one of two numbers is.
struct Max {
  __device__ __forceinline__ static float combine(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
    return larger;
#else
    return x > y || x != x ? x : y;
#endif
  }
  __device__ __forceinline__ static double combine(double x, double y) { return x > y || x != x ? x : y; }
  __device__ __forceinline__ static int32_t combine(int32_t x, int32_t y) { return x > y ? x : y; }
};

struct Min {
  __device__ __forceinline__ static float combine(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(x), "f"(y));
    return smaller;
#else
    return x < y || x != x ? x : y;
#endif
  }
  __device__ __forceinline__ static double combine(double x, double y) { return x < y || x != x ? x : y; }
  __device__ __forceinline__ static int32_t combine(int32_t x, int32_t y) { return x < y ? x : y; }
};

// Two elements combined as numbers, and rounded.
template <class Operation, class T>
__device__ __forceinline__ T combined(T x, T y) {
  return from_number<T>(Operation::combine(to_number<Number<T>>(x), to_number<Number<T>>(y)));
}

// The numbers of all lanes of a warp combined: a butterfly, so that all lanes get the same bits.
template <class Operation, class T>
__device__ __forceinline__ T reduce_warp(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = Operation::combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

// The same, and what the threads of the warp did to memory before is visible to all of them after it.
template <class Operation, class T>
__device__ __forceinline__ T all_reduce_warp(T value) {
  value = reduce_warp<Operation>(value);
  __syncwarp();
  return value;
}

// The numbers of all kThreads threads of a block combined. `scratch` has a number a warp; where the call `repeats` in a
// loop, threads wait until it may be written again.
template <class Operation, int kThreads, bool kRepeats, class T>
__device__ __forceinline__ T all_reduce(T value, T* scratch) {
  value = reduce_warp<Operation>(value);
  if constexpr (kThreads <= 32) {
    __syncwarp();
    return value;
  } else {
    constexpr int kWarps = kThreads / 32;
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (kRepeats) __syncthreads();
    if (thread % 32 == 0) scratch[thread / 32] = value;
    __syncthreads();
    value = scratch[0];
#pragma unroll
    for (int warp = 1; warp < kWarps; ++warp) value = Operation::combine(value, scratch[warp]);
    return value;
  }
}

__device__ __forceinline__ float reciprocal_root(float x) {
#if defined(__CUDACC__)
  return rsqrtf(x);
#else
  return 1.0f / sqrtf(x);
#endif
}

__device__ __forceinline__ double reciprocal_root(double x) { return 1.0 / sqrt(x); }

#if defined(__CUDACC__)
__device__ __forceinline__ uint32_t shared_address(void const* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Elements changed in one step; what they were before.
__device__ __forceinline__ float atomic_add(float* place, float value) { return atomicAdd(place, value); }
__device__ __forceinline__ double atomic_add(double* place, double value) { return atomicAdd(place, value); }
__device__ __forceinline__ int32_t atomic_add(int32_t* place, int32_t value) { return atomicAdd(place, value); }
__device__ __forceinline__ half_t atomic_add(half_t* place, half_t value) {
  return half_t(atomicAdd(reinterpret_cast<__half*>(place), value.to_half()));
}
__device__ __forceinline__ bfloat16_t atomic_add(bfloat16_t* place, bfloat16_t value) {
  const __nv_bfloat16 before =
      atomicAdd(reinterpret_cast<__nv_bfloat16*>(place), reinterpret_cast<__nv_bfloat16 const&>(value));
  return reinterpret_cast<bfloat16_t const&>(before);
}
__device__ __forceinline__ int32_t atomic_max(int32_t* place, int32_t value) { return atomicMax(place, value); }
__device__ __forceinline__ int32_t atomic_min(int32_t* place, int32_t value) { return atomicMin(place, value); }

// What has no instruction: the bits are swapped as soon as nobody else has changed them.
template <class Operation, class T>
__device__ __forceinline__ T atomic_swap(T* place, T value) {
  using Bits = cute::conditional_t<sizeof(T) == 8, unsigned long long,
                                   cute::conditional_t<sizeof(T) == 4, unsigned, unsigned short>>;
  Bits* const bits = reinterpret_cast<Bits*>(place);
  Bits seen = *bits;
  while (true) {
    const T wanted = combined<Operation>(reinterpret_cast<T const&>(seen), value);
    const Bits before = atomicCAS(bits, seen, reinterpret_cast<Bits const&>(wanted));
    if (before == seen) return reinterpret_cast<T const&>(before);
    seen = before;
  }
}
template <class T>
__device__ __forceinline__ T atomic_max(T* place, T value) {
  return atomic_swap<Max>(place, value);
}
template <class T>
__device__ __forceinline__ T atomic_min(T* place, T value) {
  return atomic_swap<Min>(place, value);
}

// Pins a number in a register.
__device__ __forceinline__ void anchor(float value) { asm volatile("" ::"f"(value)); }
__device__ __forceinline__ void anchor(double value) { asm volatile("" ::"d"(value)); }
__device__ __forceinline__ void anchor(int32_t value) { asm volatile("" ::"r"(value)); }
template <class T>
__device__ __forceinline__ void anchor(T value) {
  asm volatile("" ::"h"(static_cast<uint16_t>(bits_of(value))));
}
#else
// Outside of CUDA one thread runs at a time.
template <class T>
T atomic_add(T* place, T value) {
  const T before = *place;
  *place = combined<Add>(before, value);
  return before;
}
template <class T>
T atomic_max(T* place, T value) {
  const T before = *place;
  *place = combined<Max>(before, value);
  return before;
}
template <class T>
T atomic_min(T* place, T value) {
  const T before = *place;
  *place = combined<Min>(before, value);
  return before;
}
template <class T>
void anchor(T) {}
#endif

// What a buffer holds that is read and written: the output starts as the input.
inline void begin_with(void* output, void const* input, std::size_t bytes, cudaStream_t stream) {
  if (output == input) return;
#if defined(__CUDACC__)
  check(cudaMemcpyAsync(output, input, bytes, cudaMemcpyDeviceToDevice, stream), "copying an input to an output");
#else
  static_cast<void>(stream);
  check(cudaMemcpy(output, input, bytes, cudaMemcpyDeviceToDevice), "copying an input to an output");
#endif
}

}  // namespace te
}  // namespace mugraph
