// x / sqrt(mean of x^2 + epsilon), times a weight, over the last dimensions of a whole tensor, as one kernel.
//
// Every layout has two modes at top level: mode 0 runs over the elements that share a mean, the same in all, mode 1
// over the rows of them; a weight has stride 0 along the rows. Epsilon is the float whose bits are kEpsilon. All is
// fp32, and the order of the sums follows from layouts and types alone: results are the same bits each time, whatever
// the alignment of the pointers. A row that fits the registers of its lanes is read once, a longer one twice.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

// A layout cut into the elements of a row and the rows.
template <class Layout>
struct RowsOf {
  using Linear = typename LayoutParts<Layout>::Linear;
  static_assert(decltype(cute::rank(Linear{}))::value == 2, "the layout must have two modes: elements and rows");
  using Row = decltype(cute::layout<0>(Linear{}));
  using Elements = Mode<Row>;
  using Rows = Mode<decltype(cute::layout<1>(Linear{}))>;

  // Whether vectors of kVector elements along a row are contiguous, and aligned if the tensor is.
  template <int kVector>
  static constexpr bool has_vectors() {
    return access_of<Row, kVector>() == Access::kContiguous && Rows::kModes.strides_divisible_by(kVector, 0);
  }

  template <int kVector, class T>
  static bool is_aligned(T const* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % (kVector * sizeof(T) < 16 ? kVector * sizeof(T) : 16) == 0;
  }
};

template <uint32_t kEpsilon, int kThreads, int kLanes, int kVector, bool kCached, bool kWide, class DstLayout,
          class SrcLayout, class WeightLayout, class D, class S, class W>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(D* dst, S const* src, W const* weight) {
  tb::grid_launch();
  tb::grid_wait();
  using Source = RowsOf<SrcLayout>;
  using Target = RowsOf<DstLayout>;
  using Weight = RowsOf<WeightLayout>;
  using Partition = LinearPartition<kLanes, kVector, Source::Elements::kSize>;
  constexpr int kHeld = kCached ? Partition::kRounds : 1;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int row = static_cast<int>(blockIdx.x) * (kThreads / kLanes) + static_cast<int>(threadIdx.x) / kLanes;
  const bool is_active = row < Source::Rows::kSize;
  const VectorOffsets<kLanes, kVector, typename Source::Row> source(lane, is_active ? Source::Rows::at(row) : 0);
  float held[kHeld][kVector];
  float squares = 0.0f;
  if (is_active) {
#pragma unroll(kCached ? kHeld : 4)
    for (int round = 0; round < Partition::kRounds; ++round) {
      if (Partition::owns(lane, round)) {
        float(&values)[kVector] = held[kCached ? round : 0];
        load_elements<kWide, typename Source::Row, kVector>(src, source, round, values);
#pragma unroll
        for (int i = 0; i < kVector; ++i) squares += values[i] * values[i];
      }
    }
  }
  squares = combine_lanes<ops::Add, kThreads, kLanes>(squares);
  if (!is_active) return;
  const float mean = squares / static_cast<float>(Source::Elements::kSize);
  const float scale = 1.0f / sqrtf(mean + __uint_as_float(kEpsilon));
  const VectorOffsets<kLanes, kVector, typename Target::Row> target(lane, Target::Rows::at(row));
  const VectorOffsets<kLanes, kVector, typename Weight::Row> factors(lane);
#pragma unroll(kCached ? kHeld : 4)
  for (int round = 0; round < Partition::kRounds; ++round) {
    if (Partition::owns(lane, round)) {
      float(&values)[kVector] = held[kCached ? round : 0];
      if constexpr (!kCached) load_elements<kWide, typename Source::Row, kVector>(src, source, round, values);
      if (weight != nullptr) {
        float factor[kVector];
        load_elements<kWide, typename Weight::Row, kVector>(weight, factors, round, factor);
#pragma unroll
        for (int i = 0; i < kVector; ++i) values[i] = values[i] * scale * factor[i];
      } else {
#pragma unroll
        for (int i = 0; i < kVector; ++i) values[i] *= scale;
      }
      store_elements<kWide, typename Target::Row, kVector>(dst, target, round, values);
    }
  }
}

template <uint32_t kEpsilon, class DstLayout, class SrcLayout, class WeightLayout = SrcLayout>
struct RmsNorm {
  using Source = RowsOf<SrcLayout>;
  using Target = RowsOf<DstLayout>;
  using Weight = RowsOf<WeightLayout>;
  static constexpr int kSize = Source::Elements::kSize;
  static constexpr int kRows = Source::Rows::kSize;
  static_assert(Target::Elements::kSize == kSize && Target::Rows::kSize == kRows && Weight::Elements::kSize == kSize,
                "source, destination and weight must run over the same elements");
  // Values of a row that a lane keeps in registers at most.
  static constexpr int kMostHeld = 32;

  // dst = src / sqrt(mean of src^2 + epsilon), times `weight` unless that is null, on `queue`.
  // Throws std::runtime_error where the launch fails.
  template <class D, class S, class W = S>
  static void run(Queue queue, D* dst, S const* src, W const* weight = nullptr) {
    constexpr int kVector = vector_length<static_cast<int>(sizeof(S))>();
    const bool is_aligned = Source::template is_aligned<kVector>(src) && Target::template is_aligned<kVector>(dst) &&
                            (weight == nullptr || Weight::template is_aligned<kVector>(weight));
    if (kVector > 1 && is_aligned) {
      launch_rows<kVector, true>(queue, dst, src, weight);
    } else {
      launch_rows<kVector, false>(queue, dst, src, weight);
    }
  }

  // The longest vector that all tensors have along a row, of at most 16 bytes of the source.
  template <int kBytes, int kMax = 16 / kBytes>
  static constexpr int vector_length() {
    if constexpr (kMax <= 1) {
      return 1;
    } else {
      const bool fits = kSize % kMax == 0 && Source::template has_vectors<kMax>() &&
                        Target::template has_vectors<kMax>() && access_of<typename Weight::Row, kMax>() ==
                        Access::kContiguous;
      return fits ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

 private:
  // Lanes of a row: a warp where that keeps the GPU busy and holds the row, else as many as do, up to a block.
  template <int kVector>
  static constexpr int lanes() {
    const int vectors = kSize / kVector;
    int lanes = power_of_two_from(vectors, 32);
    while (lanes < 1024 && lanes < vectors &&
           (ceil_div(vectors, lanes) * kVector > kMostHeld ||
            (lanes < kSumThreads && static_cast<long long>(kRows) * lanes < kBusyThreads))) {
      lanes *= 2;
    }
    return lanes;
  }

  template <int kVector, bool kWide, class D, class S, class W>
  static void launch_rows(Queue queue, D* dst, S const* src, W const* weight) {
    constexpr int kLanes = lanes<kVector>();
    constexpr int kThreads = kLanes > kSumThreads ? kLanes : kSumThreads;
    constexpr bool kCached = ceil_div(kSize / kVector, kLanes) * kVector <= kMostHeld;
    constexpr int kBlocks = ceil_div(kRows, kThreads / kLanes);
    launch("kn::RmsNorm",
           rms_norm_kernel<kEpsilon, kThreads, kLanes, kVector, kCached, kWide, DstLayout, SrcLayout, WeightLayout, D, S,
                           W>,
           dim3(static_cast<unsigned>(kBlocks)), dim3(kThreads), 0, queue, dst, src, weight);
  }
};

}  // namespace kn
}  // namespace mugraph
