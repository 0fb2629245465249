// Records every access that the runtime's headers make to memory, thread by thread, without a GPU.
//
// Compile with `g++ -fsanitize=thread -c` and link without it: the compiler then calls a function before each load and
// store, and those functions are here instead of in the sanitizer's library. The stand-ins in cute/arch record what
// cp.async and ldmatrix are given. Threads run one after the other, so that warp-wide instructions return nothing of
// use; only addresses matter.
#pragma once

#include <cuda_runtime.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)

// The compiler does not report a store of a function's result; that of a variable it does.
#define make_uint4(x, y, z, w) recorder::Words<uint4>{{x, y, z, w}}.value
#define make_uint2(x, y) recorder::Words<uint2>{{x, y}}.value

inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;

namespace recorder {

template <class T>
struct Words {
  T value;
};

constexpr std::size_t kRegionBytes = std::size_t{1} << 28;

enum Instruction { kPlain = 0, kAsyncCopy = 1, kLdmatrix2 = 2, kLdmatrix4 = 4 };

struct Record {
  int32_t operation;
  int32_t thread;
  int32_t region;
  int32_t is_write;
  int32_t instruction;
  int32_t offset;  // in bytes from the start of the region
  int32_t bytes;
};

inline char* memory = nullptr;
inline int regions = 0;
inline int operation = -1;
inline int thread = 0;
inline std::vector<Record> records;

__attribute__((no_sanitize("thread"))) inline void record(void const* address, int bytes, bool is_write,
                                                          Instruction instruction) {
  char const* const at = static_cast<char const*>(address);
  if (operation < 0 || at < memory || at >= memory + regions * kRegionBytes) return;
  const std::size_t offset = static_cast<std::size_t>(at - memory);
  records.push_back({operation, thread, static_cast<int32_t>(offset / kRegionBytes), is_write, instruction,
                     static_cast<int32_t>(offset % kRegionBytes), bytes});
}

// Memory for `count` buffers, far apart; pages that nobody writes cost nothing.
__attribute__((no_sanitize("thread"))) inline void reserve(int count) {
  regions = count;
  void* const pages = mmap(nullptr, count * kRegionBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) std::exit(2);
  memory = static_cast<char*>(pages);
}

template <class T>
T* region(int index) {
  return reinterpret_cast<T*>(memory + index * kRegionBytes);
}

__attribute__((no_sanitize("thread"))) inline int write(char const* path) {
  std::FILE* const file = std::fopen(path, "wb");
  if (file == nullptr) return 1;
  const std::size_t written = std::fwrite(records.data(), sizeof(Record), records.size(), file);
  return std::fclose(file) == 0 && written == records.size() ? 0 : 1;
}

}  // namespace recorder

#define KEPT __attribute__((used, no_sanitize("thread")))

extern "C" {
KEPT void __tsan_init() {}
KEPT void __tsan_func_entry(void*) {}
KEPT void __tsan_func_exit(void*) {}
KEPT void __tsan_vptr_update(void**, void*) {}
KEPT void __tsan_vptr_read(void**) {}
#define RECORDED(bytes)                                                                                            \
  KEPT void __tsan_read##bytes(void* at) { recorder::record(at, bytes, false, recorder::kPlain); }                 \
  KEPT void __tsan_write##bytes(void* at) { recorder::record(at, bytes, true, recorder::kPlain); }                 \
  KEPT void __tsan_unaligned_read##bytes(void* at) { recorder::record(at, bytes, false, recorder::kPlain); }       \
  KEPT void __tsan_unaligned_write##bytes(void* at) { recorder::record(at, bytes, true, recorder::kPlain); }
RECORDED(1)
RECORDED(2)
RECORDED(4)
RECORDED(8)
RECORDED(16)
KEPT void __tsan_read_range(void* at, std::size_t bytes) {
  recorder::record(at, static_cast<int>(bytes), false, recorder::kPlain);
}
KEPT void __tsan_write_range(void* at, std::size_t bytes) {
  recorder::record(at, static_cast<int>(bytes), true, recorder::kPlain);
}
}

template <class T>
T __shfl_xor_sync(unsigned, T value, int) {
  return value;
}
template <class T>
T __shfl_up_sync(unsigned, T value, int) {
  return value;
}
template <class T>
T __shfl_sync(unsigned, T value, int) {
  return value;
}

inline void __syncthreads() {}
inline void __syncwarp() {}

inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __fdividef(float x, float y) { return x / y; }
inline int __float2int_rn(float value) { return static_cast<int>(value); }
inline long long __float2ll_rn(float value) { return static_cast<long long>(value); }
inline int atomicAdd(int* place, int value) { return *place + value; }
inline float cospif(float x) { return x; }
inline float sinpif(float x) { return x; }
