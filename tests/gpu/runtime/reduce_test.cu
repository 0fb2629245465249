// Self-test of tb::ReduceSum: strided, contiguous, nested and full sums, with every number of lanes.
#include "harness.h"

using namespace harness;
using mugraph::half_t;

template <bool kUpdate, int kThreads_, int kLanes, class D_, class DLayout, class S_, class SLayout>
struct ReduceCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = S_;
  using DstLayout = DLayout;
  using ALayout = SLayout;
  static constexpr bool kPoisonDst = !kUpdate;
  using Operation = tb::ReduceSum<ops::Chain<ops::MulScalar<0x3e800000>>, kThreads, kLanes, DLayout, SLayout>;  // 0.25
  static constexpr int kReduced = Operation::Reduced::kSize;
  static __device__ void run(D* dst, A const* a, B const*, int thread) {
    if constexpr (kUpdate) {
      Operation::update(dst, a, thread);
    } else {
      Operation::store(dst, a, thread);
    }
  }
  template <class AB>
  static double sum(AB const& a, int output, bool absolute) {
    double total = 0.0;
    for (int i = 0; i < kReduced; ++i) {
      const double value = a.at(output * kReduced + i);
      total += absolute ? std::fabs(value) : value;
    }
    return total;
  }
  template <class DB, class AB, class BB>
  static double expected(DB const& dst, AB const& a, BB const&, int i) {
    return 0.25 * sum(a, i, false) + (kUpdate ? dst.at(i) : 0.0);
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const& dst, AB const& a, BB const& b, int i) {
    return rounding<D>(expected(dst, a, b, i)) * 1.01 + (kReduced + 4) * rounding<float>(sum(a, i, true) + 1.0);
  }
};

template <int kExtent, int kStride>
using Vector = cute::Layout<cute::Shape<cute::Int<kExtent>>, cute::Stride<cute::Int<kStride>>>;
template <class ReducedShape, class ReducedStride, class OutputShape, class OutputStride>
using Groups = cute::Layout<cute::Shape<ReducedShape, OutputShape>, cute::Stride<ReducedStride, OutputStride>>;
using cute::Int;
using cute::Shape;
using cute::Stride;

int main() {
  // Rows of a row-major matrix: contiguous sums, plain and swizzled.
  using Contiguous = Groups<Int<64>, Int<1>, Int<16>, Int<64>>;
  RUN_CASE(ReduceCase<false, 128, 8, half_t, Vector<16, 1>, half_t, Contiguous>);
  RUN_CASE(ReduceCase<false, 128, 1, half_t, Vector<16, 1>, half_t, Contiguous>);
  RUN_CASE(ReduceCase<false, 128, 32, float, Vector<16, 1>, half_t, Contiguous>);
  RUN_CASE(ReduceCase<true, 100, 16, half_t, Vector<16, 1>, half_t, Swizzled<3, 3, 3, Contiguous>>);
  RUN_CASE(ReduceCase<true, 33, 2, float, Vector<16, 1>, half_t, Swizzled<2, 2, 4, Contiguous>>);
  RUN_CASE(ReduceCase<false, 48, 16, half_t, Vector<16, 8>, float, Contiguous>);
  // Columns of a row-major matrix: strided sums.
  using Strided = Groups<Int<24>, Int<40>, Int<33>, Int<1>>;
  RUN_CASE(ReduceCase<false, 128, 1, half_t, Vector<33, 1>, half_t, Strided>);
  RUN_CASE(ReduceCase<false, 96, 4, float, Vector<33, 1>, half_t, Strided>);
  RUN_CASE(ReduceCase<true, 31, 8, half_t, Vector<33, 2>, float, Strided>);
  // Every j-th element of a dimension (strided groups), and contiguous groups, for each of several rows.
  using EveryJth = Groups<Int<4>, Int<16>, Shape<Int<16>, Int<6>>, Stride<Int<1>, Int<64>>>;
  RUN_CASE(ReduceCase<false, 128, 4, half_t, Rows<16, 6, 16>, half_t, EveryJth>);
  RUN_CASE(ReduceCase<false, 128, 1, half_t, Rows<16, 6, 24>, half_t, Swizzled<3, 3, 3, EveryJth>>);
  using Neighbours = Groups<Int<4>, Int<1>, Shape<Int<16>, Int<6>>, Stride<Int<4>, Int<64>>>;
  RUN_CASE(ReduceCase<false, 160, 2, half_t, Columns<16, 6, 8>, half_t, Neighbours>);
  // A nested reduction over two dimensions, and everything.
  using Nested = Groups<Shape<Int<8>, Int<5>>, Stride<Int<1>, Int<48>>, Int<3>, Int<8>>;
  RUN_CASE(ReduceCase<false, 128, 8, half_t, Vector<3, 1>, half_t, Nested>);
  RUN_CASE(ReduceCase<false, 36, 8, float, Vector<3, 1>, half_t, Nested>);
  RUN_CASE(ReduceCase<false, 128, 32, float, Vector<1, 1>, half_t, Groups<Int<1000>, Int<1>, Int<1>, Int<0>>>);
  RUN_CASE(ReduceCase<true, 1, 1, half_t, Vector<2, 1>, half_t, Groups<Int<7>, Int<1>, Int<2>, Int<8>>>);
  RUN_CASE(ReduceCase<false, 1000, 8, half_t, Vector<200, 1>, half_t, Groups<Int<9>, Int<200>, Int<200>, Int<1>>>);
  return finish("reduce_test");
}
