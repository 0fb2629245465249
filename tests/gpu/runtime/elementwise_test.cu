// Self-test of tb::Copy, CopyAsync, Elementwise, LinearFragment and Fill, and of kn::Elementwise.
#include "harness.h"

using namespace harness;
using mugraph::half_t;

template <int kThreads_, int kVector, class D_, class DLayout, class S_, class SLayout, bool kToShared>
struct CopyCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = S_;
  using DstLayout = DLayout;
  using ALayout = SLayout;
  static constexpr bool kDstShared = kToShared;
  static constexpr bool kASourceShared = !kToShared;
  static __device__ void run(D* dst, A const* a, B const*, int thread) {
    tb::Copy<kThreads, kVector, DLayout, SLayout>::run(dst, a, thread);
  }
  template <class DB, class AB, class BB>
  static double expected(DB const&, AB const& a, BB const&, int i) {
    return a.at(i);
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const&, AB const& a, BB const&, int i) {
    return std::is_same<D, A>::value ? 0.0 : rounding<D>(a.at(i));
  }
};

template <int kThreads_, int kVector, class T, class DLayout, class SLayout>
struct CopyAsyncCase : CopyCase<kThreads_, kVector, T, DLayout, T, SLayout, true> {
  static __device__ void run(T* dst, T const* a, float const*, int thread) {
    tb::CopyAsync<kThreads_, kVector, DLayout, SLayout>::run(dst, a, thread);
    tb::commit_group();
    tb::commit_group();
    tb::wait_group<1>();
  }
};

enum class Way { kStore, kAccumulate, kUpdate };

struct AddSilu {
  using Op = ops::Add;
  using Epilogue = ops::Chain<ops::Silu>;
  static double apply(double x, double y) { return (x + y) / (1.0 + std::exp(-(x + y))); }
};
struct SubSquare {
  using Op = ops::Sub;
  using Epilogue = ops::Chain<ops::Square, ops::MulScalar<0x3e800000>>;  // 0.25
  static double apply(double x, double y) { return (x - y) * (x - y) * 0.25; }
};
struct MulExp {
  using Op = ops::Mul;
  using Epilogue = ops::Chain<ops::Exp>;
  static double apply(double x, double y) { return std::exp(x * y); }
};
struct DivOnly {
  using Op = ops::Div;
  using Epilogue = ops::Chain<>;
  static double apply(double x, double y) { return x / y; }
};

template <class Function, Way kWay, int kThreads_, int kVector, class D_, class DLayout, class S_, class ALayout_,
          class BLayout_>
struct BinaryCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = S_;
  using B = S_;
  using DstLayout = DLayout;
  using ALayout = ALayout_;
  using BLayout = BLayout_;
  static constexpr bool kPoisonDst = kWay != Way::kUpdate;
  using Operation =
      tb::Elementwise<typename Function::Op, typename Function::Epilogue, kThreads, kVector, DLayout, ALayout, BLayout>;
  static __device__ void run(D* dst, A const* a, B const* b, int thread) {
    if constexpr (kWay == Way::kStore) {
      Operation::store(dst, thread, a, b);
    } else if constexpr (kWay == Way::kUpdate) {
      Operation::update(dst, thread, a, b);
    } else {
      using Fragment = tb::LinearFragment<kThreads, kVector, DLayout>;
      static_assert(Fragment::kValues == Operation::kValues);
      float acc[Fragment::kValues];
      Fragment::clear(acc);
      Operation::accumulate(acc, thread, a, b);
      Operation::accumulate(acc, thread, a, b);
      Fragment::template store<ops::Chain<ops::MulScalar<0x3f000000>>>(dst, acc, thread);  // 0.5
    }
  }
  template <class DB, class AB, class BB>
  static double expected(DB const& dst, AB const& a, BB const& b, int i) {
    return Function::apply(a.at(i), b.at(i)) + (kWay == Way::kUpdate ? dst.at(i) : 0.0);
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const& dst, AB const& a, BB const& b, int i) {
    const double scale = std::fabs(Function::apply(a.at(i), b.at(i))) + std::fabs(a.at(i)) + std::fabs(b.at(i)) + 1e-6;
    return rounding<D>(expected(dst, a, b, i)) + 16.0 * rounding<float>(scale);
  }
};

template <class Op, int kThreads_, int kVector, class D_, class DLayout, class S_, class SLayout>
struct UnaryCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = S_;
  using DstLayout = DLayout;
  using ALayout = SLayout;
  static __device__ void run(D* dst, A const* a, B const*, int thread) {
    tb::Elementwise<Op, ops::Chain<ops::Square, ops::Sqrt>, kThreads, kVector, DLayout, SLayout>::store(dst, thread, a);
  }
  template <class DB, class AB, class BB>
  static double expected(DB const&, AB const& a, BB const&, int i) {
    const double x = a.at(i);
    return std::is_same<Op, ops::Exp>::value ? std::exp(x) : std::fabs(x);
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const& dst, AB const& a, BB const& b, int i) {
    return rounding<D>(expected(dst, a, b, i)) * 1.01 + 8.0 * rounding<float>(expected(dst, a, b, i));
  }
};

template <int kThreads_, class D_, class DLayout>
struct FillCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = float;
  using DstLayout = DLayout;
  using ALayout = BLayout;
  static __device__ void run(D* dst, A const*, B const*, int thread) {
    tb::Fill<kThreads, DLayout>::run(dst, -1.5f, thread);
  }
  template <class DB, class AB, class BB>
  static double expected(DB const&, AB const&, BB const&, int) {
    return -1.5;
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const&, AB const&, BB const&, int) {
    return 0.0;
  }
};

template <class Op, class D, class DLayout, class S, class ALayout, class BLayout>
void test_kernel_level(char const* name, int shift, double (*function)(double, double)) {
  // `shift` elements past an aligned address: the kernel must notice and take single elements.
  using Shifted = cute::ComposedLayout<cute::Swizzle<0, 4, 3>, cute::Int<1>, DLayout>;
  const Buffer<S> a(offsets_of(ALayout{}), false, 17);
  const Buffer<S> b(offsets_of(BLayout{}), false, 19);
  const auto tolerance = [&](double expected) { return rounding<D>(expected) + 4.0 * rounding<float>(expected); };
  if (shift == 0) {
    const Buffer<D> dst(offsets_of(DLayout{}), true, 0);
    kn::Elementwise<Op, DLayout, ALayout, BLayout>::run(cudaStream_t{}, dst.device, a.device, b.device);
    mugraph::check(cudaDeviceSynchronize(), name);
    compare(name, dst, [&](int i) { return function(a.at(i), b.at(i)); },
            [&](int i) { return tolerance(function(a.at(i), b.at(i))); });
  } else {
    const Buffer<D> dst(offsets_of(Shifted{}), true, 0);
    kn::Elementwise<Op, DLayout, ALayout, BLayout>::run(cudaStream_t{}, dst.device + 1, a.device, b.device);
    mugraph::check(cudaDeviceSynchronize(), name);
    compare(name, dst, [&](int i) { return function(a.at(i), b.at(i)); },
            [&](int i) { return tolerance(function(a.at(i), b.at(i))); });
  }
}

template <class T>
using Broadcast = cute::Layout<T, cute::Stride<cute::Int<0>, cute::Int<1>>>;

void test_copies() {
  using Tile = Swizzled<3, 3, 3, Rows<64, 16, 64>>;
  using Wide = Swizzled<3, 3, 4, Rows<128, 16, 128>>;
  RUN_CASE(CopyCase<128, 8, half_t, Tile, half_t, Rows<64, 16, 4096>, true>);
  RUN_CASE(CopyCase<100, 8, half_t, Rows<64, 16, 256>, half_t, Tile, false>);
  RUN_CASE(CopyCase<1, 1, half_t, Rows<5, 3, 8>, half_t, Columns<5, 3, 8>, true>);
  RUN_CASE(CopyCase<128, 1, half_t, Columns<24, 10, 16>, half_t, Rows<24, 10, 24>, true>);
  RUN_CASE(CopyCase<48, 8, half_t, Columns<24, 10, 16>, half_t, Rows<24, 10, 24>, true>);
  RUN_CASE(CopyCase<96, 4, float, Rows<20, 7, 20>, half_t, Rows<20, 7, 24>, true>);
  RUN_CASE(CopyCase<160, 8, half_t, Rows<40, 13, 48>, float, Rows<40, 13, 40>, false>);
  RUN_CASE(CopyCase<256, 2, half_t, Rows<2, 33, 8>, half_t, Rows<2, 33, 2>, true>);
  RUN_CASE(CopyCase<1000, 8, half_t, Wide, half_t, Rows<128, 16, 128>, true>);
  // Vectors that the swizzle takes apart, and rows that begin at odd offsets: element by element.
  RUN_CASE(CopyCase<64, 8, half_t, Swizzled<2, 1, 4, Rows<32, 8, 32>>, half_t, Rows<32, 8, 32>, true>);
  RUN_CASE(CopyCase<32, 8, half_t, Rows<8, 5, 9>, half_t, Rows<8, 5, 8>, true>);
  RUN_CASE(CopyAsyncCase<128, 8, half_t, Wide, Rows<128, 16, 4096>>);
  RUN_CASE(CopyAsyncCase<33, 8, half_t, Tile, Rows<64, 16, 72>>);
  RUN_CASE(CopyAsyncCase<128, 4, half_t, Rows<12, 9, 16>, Rows<12, 9, 12>>);
  RUN_CASE(CopyAsyncCase<64, 2, half_t, Rows<6, 30, 8>, Rows<6, 30, 6>>);
  RUN_CASE(CopyAsyncCase<128, 1, float, Columns<6, 30, 40>, Rows<6, 30, 7>>);
  RUN_CASE(CopyAsyncCase<128, 4, float, Swizzled<2, 2, 3, Rows<32, 24, 32>>, Rows<32, 24, 64>>);
  using Nested = cute::Layout<cute::Shape<cute::Shape<cute::Int<8>, cute::Int<3>>, cute::Int<10>>,
                              cute::Stride<cute::Stride<cute::Int<1>, cute::Int<80>>, cute::Int<8>>>;
  RUN_CASE(CopyAsyncCase<64, 8, half_t, Nested, Rows<24, 10, 24>>);
  RUN_CASE(CopyCase<37, 4, half_t, Rows<24, 10, 32>, half_t, Nested, false>);
}

void test_elementwise() {
  using Tile = Rows<64, 16, 64>;
  using Swizzle = Swizzled<3, 3, 3, Tile>;
  using Across = Broadcast<cute::Shape<cute::Int<64>, cute::Int<16>>>;
  using Down = cute::Layout<cute::Shape<cute::Int<64>, cute::Int<16>>, cute::Stride<cute::Int<1>, cute::Int<0>>>;
  using Odd = Rows<21, 5, 24>;
  using OddAcross = Broadcast<cute::Shape<cute::Int<21>, cute::Int<5>>>;
  RUN_CASE(BinaryCase<AddSilu, Way::kStore, 128, 8, half_t, Swizzle, half_t, Swizzle, Tile>);
  RUN_CASE(BinaryCase<DivOnly, Way::kStore, 128, 8, half_t, Tile, half_t, Swizzle, Across>);
  RUN_CASE(BinaryCase<MulExp, Way::kStore, 96, 8, half_t, Swizzle, half_t, Down, Tile>);
  RUN_CASE(BinaryCase<SubSquare, Way::kStore, 100, 4, float, Tile, half_t, Tile, Columns<64, 16, 16>>);
  RUN_CASE(BinaryCase<SubSquare, Way::kStore, 32, 1, half_t, Odd, half_t, OddAcross, Odd>);
  RUN_CASE(BinaryCase<AddSilu, Way::kStore, 1, 1, half_t, Rows<3, 2, 8>, float, Rows<3, 2, 4>, Columns<3, 2, 2>>);
  RUN_CASE(BinaryCase<AddSilu, Way::kStore, 128, 1, half_t, Columns<16, 64, 64>, half_t, Columns<16, 64, 64>,
                      Columns<16, 64, 64>>);
  RUN_CASE(BinaryCase<AddSilu, Way::kAccumulate, 128, 8, half_t, Swizzle, half_t, Swizzle, Across>);
  RUN_CASE(BinaryCase<MulExp, Way::kAccumulate, 48, 2, float, Rows<10, 9, 16>, half_t, Rows<10, 9, 10>,
                      Rows<10, 9, 16>>);
  RUN_CASE(BinaryCase<SubSquare, Way::kAccumulate, 31, 1, half_t, Odd, half_t, Odd, OddAcross>);
  RUN_CASE(BinaryCase<SubSquare, Way::kUpdate, 128, 8, half_t, Swizzle, half_t, Tile, Down>);
  RUN_CASE(BinaryCase<AddSilu, Way::kUpdate, 160, 4, float, Tile, float, Tile, Across>);
  RUN_CASE(BinaryCase<MulExp, Way::kUpdate, 7, 1, half_t, Odd, half_t, Odd, OddAcross>);
  RUN_CASE(UnaryCase<ops::Exp, 128, 8, half_t, Swizzle, half_t, Tile>);
  RUN_CASE(UnaryCase<ops::Chain<>, 128, 8, float, Tile, half_t, Swizzle>);
  RUN_CASE(UnaryCase<ops::Chain<>, 64, 1, half_t, Odd, float, Odd>);
  RUN_CASE(FillCase<128, half_t, Swizzle>);
  RUN_CASE(FillCase<100, half_t, Rows<20, 7, 24>>);
  RUN_CASE(FillCase<32, float, Odd>);
  RUN_CASE(FillCase<128, float, Columns<16, 64, 64>>);
}

void test_kernels() {
  using Matrix = Rows<96, 40, 128>;
  using Dense = Rows<96, 40, 96>;
  using Across = Broadcast<cute::Shape<cute::Int<96>, cute::Int<40>>>;
  const auto sum = [](double x, double y) { return x + y; };
  const auto quotient = [](double x, double y) { return x / y; };
  test_kernel_level<ops::Add, half_t, Matrix, half_t, Dense, Matrix>("kn add", 0, sum);
  test_kernel_level<ops::Add, half_t, Dense, half_t, Dense, Dense>("kn add, unaligned", 1, sum);
  test_kernel_level<ops::Div, half_t, Dense, half_t, Matrix, Across>("kn div, broadcast", 0, quotient);
  test_kernel_level<ops::Add, float, Dense, half_t, Dense, Across>("kn add to float", 0, sum);
  test_kernel_level<ops::Add, half_t, Rows<7, 3, 8>, half_t, Columns<7, 3, 3>, Rows<7, 3, 8>>("kn add, odd", 0, sum);
}

int main() {
  test_copies();
  test_elementwise();
  test_kernels();
  return finish("elementwise_test");
}
