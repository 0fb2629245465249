// Random numbers by Philox4x32-10 in a whole tensor, as one kernel.
//
// Both layouts are congruent over one iteration domain (mode 0 innermost). Places says an element's number in row-major
// order: element e is word e mod 4 of what Philox makes of a key and of counter e / 4, counted from an offset. Source:
// J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "../vector_access.h"

namespace mugraph {
namespace kn {

inline constexpr int kRandomThreads = 256;

struct PhiloxWords {
  uint32_t of[4];
};

__device__ __forceinline__ PhiloxWords philox(uint64_t key, uint64_t counter) {
  constexpr uint64_t kFactors[2] = {0xD2511F53u, 0xCD9E8D57u};
  constexpr uint32_t kSteps[2] = {0x9E3779B9u, 0xBB67AE85u};
  uint32_t low = static_cast<uint32_t>(key);
  uint32_t high = static_cast<uint32_t>(key >> 32);
  PhiloxWords words{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = kFactors[0] * words.of[0];
    const uint64_t second = kFactors[1] * words.of[2];
    words = {{static_cast<uint32_t>(second >> 32) ^ words.of[1] ^ low, static_cast<uint32_t>(second),
              static_cast<uint32_t>(first >> 32) ^ words.of[3] ^ high, static_cast<uint32_t>(first)}};
    low += kSteps[0];
    high += kSteps[1];
  }
  return words;
}

// What becomes of the words; `word` is the number of the element's own.
struct RandomBits {
  static __device__ __forceinline__ int32_t number(PhiloxWords const& words, int word) {
    return static_cast<int32_t>(words.of[word]);
  }
};

struct RandomUniform {
  static __device__ __forceinline__ float number(PhiloxWords const& words, int word) {
    return static_cast<float>(words.of[word] >> 8) * 0x1p-24f;
  }
};

struct RandomNormal {
  static __device__ __forceinline__ float number(PhiloxWords const& words, int word) {
    const int pair = word & 2;
    const float size = static_cast<float>((words.of[pair] >> 8) + 1) * 0x1p-24f;
    const float turn = static_cast<float>(words.of[pair + 1] >> 8) * 0x1p-23f;
    return sqrtf(-2.0f * logf(size)) * (word % 2 == 0 ? cospif(turn) : sinpif(turn));
  }
};

template <class Distribution, class Target, class Places, class D>
__global__ void __launch_bounds__(kRandomThreads)
    random_kernel(D* dst, int64_t const* seed, int64_t const* offset, long long first) {
  tb::grid_launch();
  tb::grid_wait();
  constexpr int kEach = 4;
  const int thread = static_cast<int>(blockIdx.x) * kRandomThreads + static_cast<int>(threadIdx.x);
  const int begin = thread * kEach;
  if (begin >= size_of<Target>) return;
  const uint64_t key = static_cast<uint64_t>(*seed);
  const uint64_t start = static_cast<uint64_t>(*offset);
  long long made = -1;
  PhiloxWords words{};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (begin + i >= size_of<Target>) break;
    const long long place = first + Places{}(begin + i);
    if (place / 4 != made) {
      made = place / 4;
      words = philox(key, start + static_cast<uint64_t>(made));
    }
    *(dst + VectorOffsets<1, 1, Target>(begin + i)(0)) = Distribution::number(words, static_cast<int>(place % 4));
  }
}

template <class Distribution, class Target, class Places>
struct Random {
  static_assert(size_of<Target> == size_of<Places>, "the layouts must have equally many elements");

  // dst(i) = the number of element first + Places(i), on `queue`. Throws std::runtime_error where the launch fails.
  template <class D>
  static void run(Queue queue, D* dst, int64_t const* seed, int64_t const* offset, long long first) {
    const int blocks = ceil_div(size_of<Target>, 4 * kRandomThreads);
    launch("kn::Random", random_kernel<Distribution, Target, Places, D>, dim3(static_cast<unsigned>(blocks)),
           dim3(kRandomThreads), 0, queue, dst, seed, offset, first);
  }
};

}  // namespace kn
}  // namespace mugraph
