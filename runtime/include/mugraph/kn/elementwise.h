// Element-wise operations on whole tensors in device memory, as one kernel each.
//
// All layouts are congruent over one iteration domain (mode 0 innermost); a broadcast source has stride 0 there. Each
// thread computes one vector: Op in fp32, rounded once, to nearest, when stored; of integers alone in int64_t. Vectors are as long as 16 bytes of
// the narrowest element type where the layouts keep them contiguous (or broadcast) and the pointers are aligned for
// them, otherwise single elements.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "../vector_access.h"

namespace mugraph {
namespace kn {

template <class... Layouts>
struct LayoutList {};

// N, whatever the other type is.
template <class N, class>
using Each = N;

inline constexpr int kElementwiseThreads = 256;

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

template <int kVector, class Op, class DstLayout, class SrcLayoutList, class D, class... S>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_kernel(D* dst, S const*... srcs) {
  tb::grid_launch();
  tb::grid_wait();
  const int vector = static_cast<int>(blockIdx.x) * kElementwiseThreads + static_cast<int>(threadIdx.x);
  if (vector < size_of<DstLayout> / kVector) {
    elementwise_vector<kVector, Op, DstLayout>(SrcLayoutList{}, vector, dst, srcs...);
  }
}

template <class Op, class DstLayout, class... SrcLayouts>
struct Elementwise {
  static_assert(((size_of<SrcLayouts> == size_of<DstLayout>) && ...),
                "every source must have the destination's number of elements; a broadcast source has stride 0");

  // dst = Op(srcs...), on `queue`. Throws std::runtime_error where the launch fails.
  template <class D, class... S>
  static void run(Queue queue, D* dst, S const*... srcs) {
    constexpr int kVector = vector_length<narrowest<D, S...>()>();
    if (kVector > 1 && is_aligned<DstLayout, kVector>(dst) && (is_aligned<SrcLayouts, kVector>(srcs) && ...)) {
      launch_vectors<kVector>(queue, dst, srcs...);
    } else {
      launch_vectors<1>(queue, dst, srcs...);
    }
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

  template <class Layout, int kVector, class T>
  static bool is_aligned(T const* pointer) {
    constexpr std::size_t kBytes = kVector * sizeof(T) < 16 ? kVector * sizeof(T) : 16;
    return access_of<Layout, kVector>() != Access::kContiguous ||
           reinterpret_cast<std::uintptr_t>(pointer) % kBytes == 0;
  }

  template <int kVector, class D, class... S>
  static void launch_vectors(Queue queue, D* dst, S const*... srcs) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kElementwiseThreads);
    launch("kn::Elementwise", elementwise_kernel<kVector, Op, DstLayout, LayoutList<SrcLayouts...>, D, S...>,
           dim3(static_cast<unsigned>(blocks)), dim3(kElementwiseThreads), 0, queue, dst, srcs...);
  }
};

}  // namespace kn
}  // namespace mugraph
