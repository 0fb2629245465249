// Self-test of the kernels on whole tensors that sum or move elements: kn::Reduce, kn::RmsNorm, kn::Copy.
//
// Every case runs on aligned pointers, and again where every tensor starts one element later: both must be the same
// bits, since the order of sums does not depend on alignment.
#include "harness.h"

using namespace harness;
using cute::Int;
using cute::Shape;
using cute::Stride;
using mugraph::half_t;

template <class Shape_, class Stride_>
using Of = cute::Layout<Shape_, Stride_>;

// Device memory that starts `shift` elements after a multiple of 16 bytes; poisoned, or a copy of the host's.
template <class T>
struct Shifted {
  T* base = nullptr;
  T* data = nullptr;
  std::size_t count;

  Shifted(std::vector<T> const& host, int shift) : count(host.size()) {
    mugraph::check(cudaMalloc(&base, (count + 32) * sizeof(T)), "allocating a shifted buffer");
    data = base + shift;
    mugraph::check(cudaMemcpy(data, host.data(), count * sizeof(T), cudaMemcpyHostToDevice), "filling it");
  }
  Shifted(Shifted const&) = delete;
  Shifted& operator=(Shifted const&) = delete;
  ~Shifted() { static_cast<void>(cudaFree(base)); }

  std::vector<T> fetch() const {
    std::vector<T> result(count);
    mugraph::check(cudaMemcpy(result.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "reading it back");
    return result;
  }
};

// Runs `launch(dst, a, b)` on two alignments, compares both with `expected` and with each other.
template <class D, class DLayout, class A, class ALayout, class B, class BLayout, class Launch, class Expected,
          class Tolerance>
void check_kernel(char const* name, Launch const& launch, Expected const& expected, Tolerance const& tolerance) {
  Buffer<D> dst(offsets_of(DLayout{}), true, 7);
  const Buffer<A> a(offsets_of(ALayout{}), false, 11);
  const Buffer<B> b(offsets_of(BLayout{}), false, 13);
  launch(dst.device, a.device, b.device);
  mugraph::check(cudaDeviceSynchronize(), name);
  compare(name, dst, [&](int i) { return expected(a, b, i); }, [&](int i) { return tolerance(a, b, i); });
  const std::vector<D> aligned = dst.fetch();
  const Shifted<D> dst_shifted(dst.host, 1);
  const Shifted<A> a_shifted(a.host, 1);
  const Shifted<B> b_shifted(b.host, 1);
  launch(dst_shifted.data, static_cast<A const*>(a_shifted.data), static_cast<B const*>(b_shifted.data));
  mugraph::check(cudaDeviceSynchronize(), name);
  const std::vector<D> shifted = dst_shifted.fetch();
  bool is_same = true;
  for (std::size_t i = 0; i < aligned.size(); ++i) is_same = is_same && same_bits(aligned[i], shifted[i]);
  report(is_same, name, "the result depends on the alignment of the pointers");
}

// Outputs of DLayout; SLayout says where each one's kCount elements, kStep apart, start.
template <class Combine, class D, class S, class Index, long long kCount, long long kStep, class DLayout, class SLayout>
void check_reduction(char const* name) {
  // The whole source: every element of every output.
  using Whole = cute::Layout<Shape<Int<kCount>, decltype(SLayout{}.shape())>,
                             Stride<Int<kStep>, decltype(SLayout{}.stride())>>;
  constexpr bool kIsSum = std::is_same<Combine, mugraph::ops::Add>::value;
  const auto combined = [](auto const& a, int output, bool absolute) {
    double total = kIsSum ? 0.0 : -std::numeric_limits<double>::infinity();
    for (int k = 0; k < kCount; ++k) {
      const double element = a.at(output * static_cast<int>(kCount) + k);
      const double value = absolute ? std::fabs(element) : element;
      total = kIsSum ? total + value : std::fmax(total, value);
    }
    return total;
  };
  check_kernel<D, DLayout, S, Whole, float, cute::Layout<Shape<Int<1>>, Stride<Int<1>>>>(
      name,
      [](D* dst, S const* src, float const*) {
        kn::Reduce<Combine, Index, kCount, kStep, DLayout, SLayout>::run(cudaStream_t{}, dst, src);
      },
      [&](auto const& a, auto const&, int i) { return combined(a, i, false); },
      [&](auto const& a, auto const&, int i) {
        return rounding<D>(combined(a, i, false)) * 1.01 + kIsSum * kCount * rounding<float>(combined(a, i, true));
      });
}

// A norm of rows: layouts over (elements, rows); a weight over the elements.
template <class D, class S, class W, bool kHasWeight, class DLayout, class SLayout, class WLayout>
void check_norm(char const* name) {
  constexpr int kSize = decltype(cute::size<0>(SLayout{}))::value;
  constexpr double kEpsilon = 0.25;
  // The sum of a row's squares, computed for its first element, which comes first.
  double squares = 0.0;
  check_kernel<D, DLayout, S, SLayout, W, WLayout>(
      name,
      [](D* dst, S const* src, W const* weight) {
        kn::RmsNorm<0x3e800000u, DLayout, SLayout, WLayout>::run(cudaStream_t{}, dst, src,
                                                                  kHasWeight ? weight : nullptr);
      },
      [&](auto const& a, auto const& w, int i) {
        if (i % kSize == 0) {
          squares = 0.0;
          for (int k = 0; k < kSize; ++k) squares += a.at(i + k) * a.at(i + k);
        }
        return a.at(i) / std::sqrt(squares / kSize + kEpsilon) * (kHasWeight ? w.at(i % kSize) : 1.0);
      },
      [&](auto const& a, auto const&, int i) {
        return rounding<D>(a.at(i) / 0.5) * 1.01 + (kSize + 8) * rounding<float>(a.at(i) / 0.5);
      });
}

template <class T, class DLayout, class SLayout>
void check_copy(char const* name) {
  check_kernel<T, DLayout, T, SLayout, float, cute::Layout<Shape<Int<1>>, Stride<Int<1>>>>(
      name, [](T* dst, T const* src, float const*) { kn::Copy<DLayout, SLayout>::run(cudaStream_t{}, dst, src); },
      [](auto const& a, auto const&, int i) { return a.at(i); }, [](auto const&, auto const&, int) { return 0.0; });
}

#define SUM(...) check_reduction<mugraph::ops::Add, __VA_ARGS__>("sum " #__VA_ARGS__)
#define MAX(...) check_reduction<mugraph::ops::Max, __VA_ARGS__>("max " #__VA_ARGS__)
#define NORM(...) check_norm<__VA_ARGS__>("norm " #__VA_ARGS__)
#define COPY(...) check_copy<__VA_ARGS__>("copy " #__VA_ARGS__)

int main() {
  using I32 = uint32_t;
  using I64 = uint64_t;
  // Rows of a row-major matrix, from lanes of one thread to a whole block.
  SUM(half_t, half_t, I32, 4096, 1, Of<Shape<Int<3>>, Stride<Int<1>>>, Of<Shape<Int<3>>, Stride<Int<4096>>>);
  SUM(float, half_t, I64, 512, 1, Of<Shape<Int<5>>, Stride<Int<1>>>, Of<Shape<Int<5>>, Stride<Int<520>>>);
  SUM(half_t, half_t, I32, 64, 1, Of<Shape<Int<300>>, Stride<Int<1>>>, Of<Shape<Int<300>>, Stride<Int<64>>>);
  SUM(half_t, float, I32, 12, 1, Of<Shape<Int<7>>, Stride<Int<1>>>, Of<Shape<Int<7>>, Stride<Int<12>>>);
  SUM(half_t, half_t, I32, 1, 1, Of<Shape<Int<40>>, Stride<Int<1>>>, Of<Shape<Int<40>>, Stride<Int<1>>>);
  // Uneven extents and strides: no vectors.
  SUM(half_t, half_t, I32, 37, 1, Of<Shape<Int<11>>, Stride<Int<1>>>, Of<Shape<Int<11>>, Stride<Int<37>>>);
  SUM(half_t, half_t, I32, 64, 1, Of<Shape<Int<11>>, Stride<Int<3>>>, Of<Shape<Int<11>>, Stride<Int<65>>>);
  // Runs within rows: outputs of two dimensions.
  SUM(half_t, half_t, I32, 8, 1, Of<Shape<Int<6>, Int<9>>, Stride<Int<1>, Int<6>>>,
      Of<Shape<Int<6>, Int<9>>, Stride<Int<8>, Int<48>>>);
  // Everything.
  SUM(float, float, I32, 10000, 1, Of<Shape<Int<1>>, Stride<Int<0>>>, Of<Shape<Int<1>>, Stride<Int<0>>>);
  // The largest element of rows, of odd rows, of columns, and of everything.
  MAX(half_t, half_t, I32, 4096, 1, Of<Shape<Int<3>>, Stride<Int<1>>>, Of<Shape<Int<3>>, Stride<Int<4096>>>);
  MAX(float, half_t, I32, 37, 1, Of<Shape<Int<11>>, Stride<Int<1>>>, Of<Shape<Int<11>>, Stride<Int<37>>>);
  MAX(half_t, half_t, I32, 300, 64, Of<Shape<Int<64>>, Stride<Int<1>>>, Of<Shape<Int<64>>, Stride<Int<1>>>);
  MAX(float, float, I32, 10000, 1, Of<Shape<Int<1>>, Stride<Int<0>>>, Of<Shape<Int<1>>, Stride<Int<0>>>);
  // Columns: neighbouring threads have neighbouring outputs, vectors and none; few outputs and many.
  SUM(half_t, half_t, I32, 300, 64, Of<Shape<Int<64>>, Stride<Int<1>>>, Of<Shape<Int<64>>, Stride<Int<1>>>);
  SUM(float, half_t, I64, 33, 24, Of<Shape<Int<24>>, Stride<Int<1>>>, Of<Shape<Int<24>>, Stride<Int<1>>>);
  SUM(half_t, float, I32, 5, 36, Of<Shape<Int<33>>, Stride<Int<1>>>, Of<Shape<Int<33>>, Stride<Int<1>>>);
  SUM(half_t, half_t, I32, 2, 4096, Of<Shape<Int<4096>>, Stride<Int<1>>>, Of<Shape<Int<4096>>, Stride<Int<1>>>);
  // A middle dimension, into a destination in another order.
  SUM(half_t, half_t, I32, 4, 16, Of<Shape<Int<16>, Int<3>>, Stride<Int<3>, Int<1>>>,
      Of<Shape<Int<16>, Int<3>>, Stride<Int<1>, Int<64>>>);
  // No dimension has stride 1.
  SUM(half_t, half_t, I32, 5, 2, Of<Shape<Int<6>>, Stride<Int<1>>>, Of<Shape<Int<6>>, Stride<Int<10>>>);

  using None = Of<Shape<Int<1>, Int<1>>, Stride<Int<0>, Int<0>>>;
  static_assert(mugraph::size_of<None> == 1);
  // A warp a row, a block a row, and a row of more than a block holds.
  NORM(half_t, half_t, half_t, false, Rows<256, 6, 256>, Rows<256, 6, 256>, Rows<256, 1, 0>);
  NORM(half_t, half_t, half_t, true, Rows<4096, 2, 4096>, Rows<4096, 2, 4104>, Rows<4096, 1, 0>);
  NORM(float, float, half_t, true, Rows<1000, 3, 1000>, Rows<1000, 3, 1024>, Rows<1000, 1, 0>);
  NORM(half_t, half_t, float, true, Rows<34816, 1, 0>, Rows<34816, 1, 0>, Rows<34816, 1, 0>);
  // Uneven rows, rows in another order, one element a row.
  NORM(half_t, half_t, half_t, true, Rows<37, 5, 40>, Rows<37, 5, 37>, Rows<37, 1, 0>);
  NORM(half_t, half_t, half_t, true, Columns<24, 8, 8>, Columns<24, 8, 8>, Rows<24, 1, 0>);
  NORM(half_t, float, half_t, false, Rows<1, 9, 1>, Rows<1, 9, 8>, Rows<1, 1, 0>);
  // Two dimensions in a mean, two before it.
  using Nested = Of<Shape<Shape<Int<8>, Int<3>>, Shape<Int<2>, Int<2>>>,
                    Stride<Stride<Int<1>, Int<16>>, Stride<Int<48>, Int<96>>>>;
  NORM(half_t, half_t, half_t, true, Nested, Nested,
       Of<Shape<Shape<Int<8>, Int<3>>, Int<1>>, Stride<Stride<Int<1>, Int<8>>, Int<0>>>);

  COPY(half_t, Rows<64, 5, 64>, Rows<64, 5, 72>);
  COPY(half_t, Rows<12, 5, 12>, Rows<12, 5, 20>);
  COPY(float, Rows<7, 5, 7>, Rows<7, 5, 9>);
  COPY(half_t, Rows<33, 65, 40>, Columns<33, 65, 65>);
  return finish("whole_tensor_test");
}
