// Element-wise operations on whole tensors in device memory, as one kernel each.
//
// All layouts are congruent over one iteration domain (mode 0 innermost); a broadcast source has stride 0 there. Each
// thread computes one vector: Op in fp32, rounded once, to nearest, when stored; of integers alone in int64_t. Vectors are as long as 16 bytes of
// the narrowest element type where the layouts keep them contiguous (or broadcast) and the pointers are aligned for
// them, otherwise single elements.
#pragma once

#include "../vector_access.h"
#include "parts.h"

namespace mugraph {
namespace kn {

template <class... Layouts>
struct LayoutList {};

// N, whatever the other type is.
template <class N, class>
using Each = N;

template <int kVector, class Op, class DstLayout, class... SrcLayouts, class D, class... S>
__device__ __forceinline__ void elementwise_vector(LayoutList<SrcLayouts...>, int vector, D* dst, S const*... srcs) {
  using N = ExactNumber<S...>;
  N operands[sizeof...(SrcLayouts)][kVector];
  int next = 0;
  (load_vector<SrcLayouts, kVector>(srcs, VectorOffsets<1, kVector, SrcLayouts>(vector), 0, operands[next++]), ...);
  // A constant of integers may be a fraction.
  decltype(Op::apply(Each<N, S>{}...)) results[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    int source = 0;
    if constexpr (sizeof...(SrcLayouts) == 1) {
      results[i] = Op::apply(operands[source][i]);
    } else if constexpr (sizeof...(SrcLayouts) == 2) {
      results[i] = Op::apply(operands[source][i], operands[source + 1][i]);
    } else {
      static_assert(sizeof...(SrcLayouts) == 3, "element-wise operations have one to three sources");
      results[i] = Op::apply(operands[source][i], operands[source + 1][i], operands[source + 2][i]);
    }
  }
  store_vector<DstLayout, kVector>(dst, VectorOffsets<1, kVector, DstLayout>(vector), 0, results);
}

template <int kVector_, class Op, class DstLayout, class SrcLayoutList, class D, class... S>
struct ElementwisePart {
  static constexpr int kElements = size_of<DstLayout>, kVector = kVector_;
  bool is_wide;
  D* dst;
  cute::tuple<S const*...> srcs;

  template <int kLength>
  __device__ __forceinline__ void run(int vector) const {
    cute::apply(
        srcs, [&](auto... each) { elementwise_vector<kLength, Op, DstLayout>(SrcLayoutList{}, vector, dst, each...); });
  }
};

template <class Op, class DstLayout, class... SrcLayouts>
struct Elementwise {
  static_assert(((size_of<SrcLayouts> == size_of<DstLayout>) && ...),
                "every source must have the destination's number of elements; a broadcast source has stride 0");

  // dst = Op(srcs...), on `queue`. Throws std::runtime_error where the launch fails.
  template <class D, class... S>
  static void run(Queue queue, D* dst, S const*... srcs) {
    launch_part("kn::Elementwise", queue, part(dst, srcs...));
  }

  // The same as a part of a launch.
  template <class D, class... S>
  static auto part(D* dst, S const*... srcs) {
    constexpr int kVector = vector_length<narrowest<D, S...>()>();
    const bool is_wide = is_aligned_for<DstLayout, kVector>(dst) && (is_aligned_for<SrcLayouts, kVector>(srcs) && ...);
    return ElementwisePart<kVector, Op, DstLayout, LayoutList<SrcLayouts...>, D, S...>{
        is_wide, dst, cute::make_tuple(srcs...)};
  }

  // The longest vector that suits all layouts, given the narrowest element's bytes.
  template <int kBytes, int kMax = 16 / kBytes>
  static constexpr int vector_length() {
    if constexpr (kMax == 1) {
      return 1;
    } else {
      const bool fits = size_of<DstLayout> % kMax == 0 && access_of<DstLayout, kMax>() == Access::kContiguous &&
                        ((access_of<SrcLayouts, kMax>() != Access::kGather) && ...);
      return fits ? kMax : vector_length<kBytes, kMax / 2>();
    }
  }

 private:
  template <class... T>
  static constexpr int narrowest() {
    int bytes = 16;
    ((bytes = static_cast<int>(sizeof(T)) < bytes ? static_cast<int>(sizeof(T)) : bytes), ...);
    return bytes;
  }
};

}  // namespace kn
}  // namespace mugraph
