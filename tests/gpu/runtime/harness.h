// What the self-tests of the runtime headers share: poisoned buffers, one kernel around each case, comparisons.
//
// A case is a struct with kThreads, the types and layouts of a destination and of up to two sources, whether each of
// them is staged in shared memory, `run(dst, a, b, thread)` for the device and `expected(...)` for the host. All memory
// that a layout does not reach is NaN before, must not influence a result, and must hold the same bits afterwards.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime.h"

namespace harness {

using cutlass::half_t;

inline int checks = 0;
inline int failures = 0;

inline void report(bool is_right, char const* name, char const* what) {
  ++checks;
  if (is_right) return;
  ++failures;
  std::printf("FAILED %s: %s\n", name, what);
}

// Prints the summary; the program's exit status.
inline int finish(char const* program) {
  std::printf("%s: %d checks, %d failed\n", program, checks, failures);
  return failures == 0 && checks > 0 ? 0 : 1;
}

// A small generator of reproducible numbers in [-1, 1).
class Random {
  uint32_t state_;

 public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761u + 1u) {}
  double next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    return (state_ >> 8) / 8388608.0 - 1.0;
  }
};

template <class T>
T poison() {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "half_t or float");
  T value;
  const uint32_t bits = sizeof(T) == 2 ? 0x7e17u : 0x7fc00badu;
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
bool same_bits(T left, T right) {
  return std::memcmp(&left, &right, sizeof(T)) == 0;
}

// Half the distance between neighbouring numbers of type T near `value`.
template <class T>
double rounding(double value) {
  const double magnitude = std::fabs(value);
  if (sizeof(T) == 2) return std::fmax(std::ldexp(magnitude, -11), std::ldexp(1.0, -25));
  return std::ldexp(magnitude, -24);
}

// Where the elements of a layout lie.
template <class Layout>
std::vector<int> offsets_of(Layout const& layout) {
  std::vector<int> offsets(mugraph::size_of<Layout>);
  for (int i = 0; i < mugraph::size_of<Layout>; ++i) offsets[i] = static_cast<int>(layout(i));
  return offsets;
}

// Memory for a layout, in whole 16-byte chunks, on the host and on the device. Nothing of it is compiled again for
// another layout.
template <class T>
struct Buffer {
  std::vector<int> offsets;
  std::vector<T> host;
  T* device = nullptr;

  Buffer(std::vector<int> offsets_, bool poisoned, uint32_t seed) : offsets(std::move(offsets_)) {
    const int count = *std::max_element(offsets.begin(), offsets.end()) + 1;
    host.assign((count * sizeof(T) + 15) / 16 * 16 / sizeof(T), poison<T>());
    if (!poisoned) {
      Random random(seed);
      std::vector<bool> is_set(host.size(), false);
      for (int offset : offsets) {
        const double value = random.next();
        if (!is_set[offset]) host[offset] = T(static_cast<float>(value));
        is_set[offset] = true;
      }
    }
    mugraph::check(cudaMalloc(&device, bytes()), "allocating a buffer");
    mugraph::check(cudaMemcpy(device, host.data(), bytes(), cudaMemcpyHostToDevice), "filling a buffer");
  }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;
  ~Buffer() { static_cast<void>(cudaFree(device)); }

  double at(int index) const { return static_cast<double>(static_cast<float>(host[offsets[index]])); }
  std::size_t bytes() const { return host.size() * sizeof(T); }
  int count() const { return static_cast<int>(host.size()); }

  std::vector<T> fetch() const {
    std::vector<T> result(host.size());
    mugraph::check(cudaMemcpy(result.data(), device, bytes(), cudaMemcpyDeviceToHost), "reading a buffer back");
    return result;
  }
};

// A function of the number of an element, which lives as long as the call that it is passed to.
class Value {
  void const* function_;
  double (*call_)(void const*, int);

 public:
  template <class Function>
  Value(Function const& function)
      : function_(&function), call_([](void const* self, int i) -> double {
          return (*static_cast<Function const*>(self))(i);
        }) {}
  double operator()(int i) const { return call_(function_, i); }
};

// The destination against `expected(i)`, within `tolerance(i)`; everything between its elements unchanged.
template <class T>
void compare(char const* name, Buffer<T> const& dst, Value const& expected, Value const& tolerance) {
  const std::vector<T> result = dst.fetch();
  std::vector<bool> is_element(result.size(), false);
  char message[160] = "";
  bool is_right = true;
  for (int i = 0; i < static_cast<int>(dst.offsets.size()); ++i) {
    const int offset = dst.offsets[i];
    is_element[offset] = true;
    const double value = static_cast<double>(static_cast<float>(result[offset]));
    if (is_right && !(std::fabs(value - expected(i)) <= tolerance(i))) {
      std::snprintf(message, sizeof(message), "element %d at offset %d is %.9g, expected %.9g within %.3g", i, offset,
                    value, expected(i), tolerance(i));
      is_right = false;
    }
  }
  report(is_right, name, message);
  bool is_untouched = true;
  for (std::size_t offset = 0; offset < result.size(); ++offset) {
    if (is_untouched && !is_element[offset] && !same_bits(result[offset], dst.host[offset])) {
      std::snprintf(message, sizeof(message), "offset %d belongs to no element and was written",
                    static_cast<int>(offset));
      is_untouched = false;
    }
  }
  report(is_untouched, name, message);
}

// Places of the operands in dynamic shared memory.
__host__ __device__ constexpr int aligned(int bytes) { return (bytes + 127) / 128 * 128; }

template <class T>
__device__ void stage(T* target, T const* source, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) target[i] = source[i];
}

}  // namespace harness

// Runs one case in one block: stages what the case wants in shared memory, computes, copies the destination back.
template <class Case>
__global__ void __launch_bounds__(Case::kThreads)
    run_case(typename Case::D* dst, typename Case::A const* a, typename Case::B const* b, int dst_count, int a_count,
             int b_count) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  using D = typename Case::D;
  using A = typename Case::A;
  using B = typename Case::B;
  D* const dst_shared = reinterpret_cast<D*>(shared_memory);
  const int a_start = harness::aligned(dst_count * static_cast<int>(sizeof(D)));
  A* const a_shared = reinterpret_cast<A*>(shared_memory + a_start);
  const int b_start = a_start + harness::aligned(a_count * static_cast<int>(sizeof(A)));
  B* const b_shared = reinterpret_cast<B*>(shared_memory + b_start);
  if (Case::kDstShared) harness::stage(dst_shared, dst, dst_count);
  if (Case::kASourceShared) harness::stage(a_shared, a, a_count);
  if (Case::kBSourceShared) harness::stage(b_shared, b, b_count);
  __syncthreads();
  Case::run(Case::kDstShared ? dst_shared : dst, Case::kASourceShared ? a_shared : a,
            Case::kBSourceShared ? b_shared : b, static_cast<int>(threadIdx.x));
  __syncthreads();
  if (Case::kDstShared) harness::stage(dst, static_cast<D const*>(dst_shared), dst_count);
}

namespace harness {

// What a case without its own choices has.
struct CaseBase {
  using B = float;
  using BLayout = cute::Layout<cute::Shape<cute::Int<1>>, cute::Stride<cute::Int<1>>>;
  static constexpr bool kDstShared = true;
  static constexpr bool kASourceShared = true;
  static constexpr bool kBSourceShared = true;
  static constexpr bool kPoisonDst = true;  // false: the destination is also an operand
};

// Case::expected(dst, a, b, i) and Case::tolerance(dst, a, b, i) get the buffers as they were before.
template <class Case>
void run(char const* name) {
  const Buffer<typename Case::D> dst(offsets_of(typename Case::DstLayout{}), Case::kPoisonDst, 7);
  const Buffer<typename Case::A> a(offsets_of(typename Case::ALayout{}), false, 11);
  const Buffer<typename Case::B> b(offsets_of(typename Case::BLayout{}), false, 13);
  const std::size_t smem = aligned(static_cast<int>(dst.bytes())) + aligned(static_cast<int>(a.bytes())) +
                           aligned(static_cast<int>(b.bytes()));
  mugraph::launch(name, run_case<Case>, dim3(1), dim3(Case::kThreads), smem, cudaStream_t{}, dst.device, a.device,
                  b.device, dst.count(), a.count(), b.count());
  mugraph::check(cudaDeviceSynchronize(), name);
  compare(name, dst, [&](int i) { return Case::expected(dst, a, b, i); },
          [&](int i) { return Case::tolerance(dst, a, b, i); });
}

// Layouts by their iteration domain: `inner` contiguous elements, `outer` rows of them `stride` apart.
template <int kInner, int kOuter, int kStride>
using Rows = cute::Layout<cute::Shape<cute::Int<kInner>, cute::Int<kOuter>>,
                          cute::Stride<cute::Int<1>, cute::Int<kStride>>>;
// The same domain with the outer dimension contiguous.
template <int kInner, int kOuter, int kStride>
using Columns = cute::Layout<cute::Shape<cute::Int<kInner>, cute::Int<kOuter>>,
                             cute::Stride<cute::Int<kStride>, cute::Int<1>>>;
template <int kBits, int kBase, int kShift, class Linear>
using Swizzled = cute::ComposedLayout<cute::Swizzle<kBits, kBase, kShift>, cute::Int<0>, Linear>;

}  // namespace harness

#define RUN_CASE(...) harness::run<__VA_ARGS__>(#__VA_ARGS__)
