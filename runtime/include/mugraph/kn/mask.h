// A whole tensor with a constant in place of elements whose coordinates fail a condition, as one kernel.
//
// All layouts are congruent over one iteration domain (mode 0 innermost). A condition is a linear form of the
// coordinates that is at least 0: what the layout Form makes of an element's number, plus a start.
#pragma once

#include "elementwise.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

// The value of each form at coordinate 0.
template <int kForms>
struct FormStarts {
  long long of[kForms];
};

template <class... Forms>
__device__ __forceinline__ bool is_kept(LayoutList<Forms...>, FormStarts<sizeof...(Forms)> const& starts, int element) {
  int form = 0;
  return ((starts.of[form++] + Forms{}(element) >= 0) && ...);
}

template <int kVector, uint32_t kBits, class DstLayout, class SrcLayout, class FormList, class Starts, class D, class S>
__global__ void __launch_bounds__(kElementwiseThreads) mask_kernel(D* dst, S const* src, Starts starts) {
  tb::grid_launch();
  tb::grid_wait();
  const int vector = static_cast<int>(blockIdx.x) * kElementwiseThreads + static_cast<int>(threadIdx.x);
  if (vector >= size_of<DstLayout> / kVector) return;
  float values[kVector];
  load_vector<SrcLayout, kVector>(src, VectorOffsets<1, kVector, SrcLayout>(vector), 0, values);
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    if (!is_kept(FormList{}, starts, vector * kVector + i)) values[i] = __uint_as_float(kBits);
  }
  store_vector<DstLayout, kVector>(dst, VectorOffsets<1, kVector, DstLayout>(vector), 0, values);
}

template <uint32_t kBits, class DstLayout, class SrcLayout, class... Forms>
struct Mask {
  using Starts = FormStarts<sizeof...(Forms)>;
  static_assert(size_of<SrcLayout> == size_of<DstLayout>, "source and destination must have equally many elements");

  // dst(i) = src(i) where all forms are at least 0, else the float of bits kBits, on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <class D, class S>
  static void run(Queue queue, D* dst, S const* src, Starts starts) {
    constexpr int kBytes = static_cast<int>(sizeof(D) < sizeof(S) ? sizeof(D) : sizeof(S));
    constexpr int kVector = Elementwise<ops::Chain<>, DstLayout, SrcLayout>::template vector_length<kBytes>();
    if (kVector > 1 && is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<SrcLayout, kVector>(src)) {
      launch_vectors<kVector>(queue, dst, src, starts);
    } else {
      launch_vectors<1>(queue, dst, src, starts);
    }
  }

 private:
  template <int kVector, class D, class S>
  static void launch_vectors(Queue queue, D* dst, S const* src, Starts starts) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kElementwiseThreads);
    launch("kn::Mask", mask_kernel<kVector, kBits, DstLayout, SrcLayout, LayoutList<Forms...>, Starts, D, S>,
           dim3(static_cast<unsigned>(blocks)), dim3(kElementwiseThreads), 0, queue, dst, src, starts);
  }
};

}  // namespace kn
}  // namespace mugraph
