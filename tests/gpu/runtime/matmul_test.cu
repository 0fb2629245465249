// Self-test of tb::Matmul, MmaFragment and sums of fragments: all majors, odd sizes, warp layouts, swizzles and types.
#include "harness.h"

using namespace harness;
using mugraph::half_t;

enum class Way { kStore, kUpdate, kAccumulate };

// dst = 0.5 * (A B) once, plus dst (kUpdate), or the sum of 0.5 * (A B) over two calls (kAccumulate).
template <Way kWay, int kThreads_, int kWarpsM, int kWarpsN, class D_, class CLayout, class TA, class MK, class TB,
          class NK, bool kLdmatrixA = true, bool kLdmatrixB = true>
struct MatmulCase : CaseBase {
  static constexpr int kThreads = kThreads_;
  using D = D_;
  using A = TA;
  using B = TB;
  using DstLayout = CLayout;
  using ALayout = MK;
  using BLayout = NK;
  static constexpr bool kPoisonDst = kWay != Way::kUpdate;
  using Operation = tb::Matmul<kWarpsM, kWarpsN, MK, NK, kLdmatrixA, kLdmatrixB>;
  using Fragment = tb::MmaFragment<kWarpsM, kWarpsN, Operation::A::kRows, Operation::B::kRows>;
  using Half = ops::Chain<ops::MulScalar<0x3f000000>>;
  static constexpr int kM = Operation::A::kRows;
  static constexpr int kN = Operation::B::kRows;
  static constexpr int kK = Operation::A::kK;
  static_assert(Fragment::kValues == Operation::kValues);

  static __device__ void run(D* dst, A const* a, B const* b, int thread) {
    float acc[Operation::kValues];
    Operation::clear(acc);
    Operation::mma(acc, a, b, thread);
    if constexpr (kWay == Way::kStore) {
      Fragment::template store<Half, CLayout>(dst, acc, thread);
    } else if constexpr (kWay == Way::kUpdate) {
      Fragment::template update<Half, CLayout>(dst, acc, thread);
    } else {
      float total[Fragment::kValues];
      Fragment::clear(total);
      using Sum = tb::MapFragment<ops::Chain<>, Half, Fragment>;
      Sum::update(total, acc);
      Sum::update(total, acc);
      Fragment::template store<ops::Chain<>, CLayout>(dst, total, thread);
    }
  }

  template <class AB, class BB>
  static double product(AB const& a, BB const& b, int i, bool absolute) {
    const int m = i % kM;
    const int n = i / kM;
    double sum = 0.0;
    for (int k = 0; k < kK; ++k) {
      // The tensor core multiplies half_t: other types are rounded to it first.
      const double x = static_cast<double>(static_cast<float>(half_t(static_cast<float>(a.at(m + k * kM)))));
      const double y = static_cast<double>(static_cast<float>(half_t(static_cast<float>(b.at(n + k * kN)))));
      sum += absolute ? std::fabs(x * y) : x * y;
    }
    return sum;
  }
  template <class DB, class AB, class BB>
  static double expected(DB const& dst, AB const& a, BB const& b, int i) {
    const double scale = kWay == Way::kAccumulate ? 1.0 : 0.5;
    return scale * product(a, b, i, false) + (kWay == Way::kUpdate ? dst.at(i) : 0.0);
  }
  template <class DB, class AB, class BB>
  static double tolerance(DB const& dst, AB const& a, BB const& b, int i) {
    return rounding<D>(expected(dst, a, b, i)) * 1.01 + 4.0 * (kK + 4) * rounding<float>(product(a, b, i, true) + 1e-3);
  }
};

// An operand or result (rows, columns) with the columns contiguous, or the rows; `kStride` between the others.
template <int kRows, int kColumns, int kStride>
using RowMajor = cute::Layout<cute::Shape<cute::Int<kRows>, cute::Int<kColumns>>,
                              cute::Stride<cute::Int<kStride>, cute::Int<1>>>;
template <int kRows, int kColumns, int kStride>
using ColumnMajor = cute::Layout<cute::Shape<cute::Int<kRows>, cute::Int<kColumns>>,
                                 cute::Stride<cute::Int<1>, cute::Int<kStride>>>;

// One size in all four combinations of contiguous dimensions; strides are the extents padded to 8.
template <int kThreads, int kWarpsM, int kWarpsN, int kM, int kN, int kK>
void all_majors() {
  constexpr int kMPadded = (kM + 7) / 8 * 8;
  constexpr int kNPadded = (kN + 7) / 8 * 8;
  constexpr int kKPadded = (kK + 7) / 8 * 8;
  using KA = RowMajor<kM, kK, kKPadded>;
  using MA = ColumnMajor<kM, kK, kMPadded>;
  using KB = RowMajor<kN, kK, kKPadded>;
  using NB = ColumnMajor<kN, kK, kNPadded>;
  using NC = RowMajor<kM, kN, kNPadded>;
  using MC = ColumnMajor<kM, kN, kMPadded>;
  char name[96];
  std::snprintf(name, sizeof(name), "matmul %dx%dx%d on %dx%d warps of %d threads", kM, kN, kK, kWarpsM, kWarpsN,
                kThreads);
  harness::run<MatmulCase<Way::kStore, kThreads, kWarpsM, kWarpsN, half_t, NC, half_t, KA, half_t, NB>>(name);
  harness::run<MatmulCase<Way::kUpdate, kThreads, kWarpsM, kWarpsN, half_t, MC, half_t, MA, half_t, KB>>(name);
  harness::run<MatmulCase<Way::kAccumulate, kThreads, kWarpsM, kWarpsN, float, NC, half_t, KA, half_t, KB>>(name);
  harness::run<MatmulCase<Way::kStore, kThreads, kWarpsM, kWarpsN, float, MC, half_t, MA, half_t, NB>>(name);
}

void test_sizes() {
  all_majors<128, 1, 4, 16, 64, 128>();
  all_majors<160, 2, 2, 40, 40, 24>();
  all_majors<64, 2, 1, 1, 1, 1>();
  all_majors<96, 3, 1, 50, 20, 40>();
  all_majors<100, 1, 3, 30, 33, 7>();
  all_majors<256, 4, 2, 100, 72, 40>();
  all_majors<32, 1, 1, 16, 16, 264>();
#ifndef FEWER_SIZES
  // More of whole tiles, of odd extents, and of fewer rows than a tile has; sizes above have each of these.
  all_majors<128, 2, 2, 64, 64, 64>();
  all_majors<128, 2, 2, 17, 9, 31>();
  all_majors<128, 1, 4, 8, 100, 72>();
#endif
}

void test_layouts() {
  // Swizzled, as the planner lays out tiles of 64 and 128 half_t a row.
  using A64 = Swizzled<3, 3, 3, RowMajor<64, 64, 64>>;
  using A128 = Swizzled<3, 3, 4, RowMajor<32, 128, 128>>;
  using B64 = Swizzled<3, 3, 3, ColumnMajor<64, 64, 64>>;
  using B32 = Swizzled<2, 3, 3, ColumnMajor<32, 128, 32>>;
  using C64 = Swizzled<3, 3, 3, RowMajor<64, 64, 64>>;
  RUN_CASE(MatmulCase<Way::kStore, 128, 2, 2, half_t, C64, half_t, A64, half_t, B64>);
  RUN_CASE(MatmulCase<Way::kUpdate, 128, 4, 1, half_t, C64, half_t, A64, half_t, B64>);
  RUN_CASE(MatmulCase<Way::kStore, 128, 2, 2, half_t, Swizzled<2, 3, 3, RowMajor<32, 32, 32>>, half_t, A128, half_t,
                      B32>);
  RUN_CASE(MatmulCase<Way::kUpdate, 64, 1, 2, float, Swizzled<2, 1, 4, ColumnMajor<32, 32, 32>>, half_t, A128, half_t,
                      Swizzled<3, 3, 4, RowMajor<32, 128, 128>>>);
  RUN_CASE(MatmulCase<Way::kStore, 64, 2, 1, half_t, RowMajor<20, 13, 13>, half_t,
                      Swizzled<1, 3, 2, RowMajor<20, 30, 32>>, half_t, Swizzled<1, 3, 3, ColumnMajor<13, 30, 16>>>);
  // A shift swizzle: rows of 5 chunks.
  RUN_CASE(MatmulCase<Way::kStore, 64, 2, 1, half_t, RowMajor<40, 40, 40>, half_t, RowMajor<40, 40, 40>, half_t,
                      RowMajor<40, 40, 40>>);
  // Nested modes: K split in two, rows split in two.
  using SplitK = cute::Layout<cute::Shape<cute::Int<32>, cute::Shape<cute::Int<16>, cute::Int<3>>>,
                              cute::Stride<cute::Int<16>, cute::Stride<cute::Int<1>, cute::Int<512>>>>;
  using SplitN = cute::Layout<cute::Shape<cute::Shape<cute::Int<8>, cute::Int<4>>, cute::Int<48>>,
                              cute::Stride<cute::Stride<cute::Int<1>, cute::Int<384>>, cute::Int<8>>>;
  using SplitC = cute::Layout<cute::Shape<cute::Int<32>, cute::Shape<cute::Int<16>, cute::Int<2>>>,
                              cute::Stride<cute::Int<16>, cute::Stride<cute::Int<1>, cute::Int<512>>>>;
  RUN_CASE(MatmulCase<Way::kStore, 128, 2, 2, half_t, SplitC, half_t, SplitK, half_t, SplitN>);
  RUN_CASE(MatmulCase<Way::kStore, 128, 2, 2, half_t, SplitC, half_t, Swizzled<1, 3, 3, SplitK>, half_t,
                      Swizzled<2, 3, 3, SplitN>, true, false>);
}

void test_element_loads() {
  RUN_CASE(MatmulCase<Way::kStore, 64, 2, 1, half_t, RowMajor<20, 13, 13>, half_t, RowMajor<20, 19, 19>, half_t,
                      ColumnMajor<13, 19, 13>, false, false>);
  RUN_CASE(MatmulCase<Way::kStore, 128, 2, 2, float, RowMajor<32, 48, 50>, float, RowMajor<32, 24, 24>, half_t,
                      ColumnMajor<48, 24, 48>, false, true>);
  RUN_CASE(MatmulCase<Way::kUpdate, 128, 1, 4, half_t, RowMajor<9, 48, 48>, half_t, RowMajor<9, 20, 24>, float,
                      ColumnMajor<48, 20, 51>, true, false>);
  // One row, whose elements are 8 apart.
  using Sparse = cute::Layout<cute::Shape<cute::Int<1>, cute::Int<24>>, cute::Stride<cute::Int<1>, cute::Int<8>>>;
  RUN_CASE(MatmulCase<Way::kStore, 32, 1, 1, half_t, RowMajor<1, 16, 16>, half_t, Sparse, half_t,
                      ColumnMajor<16, 24, 16>>);
}

// The partition of the accumulator: every element of the matrix belongs to exactly one value of one thread.
template <int kWarpsM, int kWarpsN, int kM, int kN>
void test_partition() {
  using Fragment = tb::MmaFragment<kWarpsM, kWarpsN, kM, kN>;
  std::vector<int> owners(kM * kN, 0);
  for (int thread = 0; thread < kWarpsM * kWarpsN * 32; ++thread) {
    for (int i = 0; i < Fragment::kTilesM; ++i) {
      for (int j = 0; j < Fragment::kTilesN; ++j) {
        for (int c = 0; c < 4; ++c) {
          const int row = Fragment::row_of(thread, i, c);
          const int column = Fragment::column_of(thread, j, c);
          if (row < kM && column < kN) ++owners[row * kN + column];
        }
      }
    }
  }
  bool is_partition = true;
  for (int count : owners) is_partition = is_partition && count == 1;
  report(is_partition, "MmaFragment", "an element is held by no thread or by several");
}

int main() {
  test_sizes();
  test_layouts();
  test_element_loads();
  test_partition<1, 1, 16, 8>();
  test_partition<2, 2, 100, 36>();
  test_partition<4, 1, 17, 65>();
  test_partition<1, 8, 5, 9>();
  return finish("matmul_test");
}
