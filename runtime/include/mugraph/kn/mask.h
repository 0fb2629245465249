// A whole tensor with a constant in place of elements whose coordinates fail a condition, as one kernel.
//
// All layouts are congruent over one iteration domain (mode 0 innermost). A condition is a linear form of the
// coordinates that is at least 0: what the layout Form makes of an element's number, plus a start, which may grow with
// lengths: numbers that device memory holds.
#pragma once

#include "elementwise.h"
#include "../tb/places.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

// A number of 32 or 64 bits that device memory holds, from 0 to `largest`, and by how much each form grows with it.
template <int kForms>
struct HeldLength {
  void const* held;
  bool is_wide;
  int largest;
  long long steps[kForms];

  __device__ __forceinline__ int value() const {
    return is_wide ? tb::length_in(static_cast<long long const*>(held), largest)
                   : tb::length_in(static_cast<int const*>(held), largest);
  }
};

// The value of each form at coordinate 0, where lengths are 0.
template <int kForms, int kLengths = 0>
struct FormStarts {
  long long of[kForms];
  HeldLength<kForms> lengths[kLengths > 0 ? kLengths : 1];

  __device__ __forceinline__ FormStarts<kForms> at_lengths() const {
    FormStarts<kForms> result{};
    for (int form = 0; form < kForms; ++form) {
      result.of[form] = of[form];
      for (int i = 0; i < kLengths; ++i) result.of[form] += lengths[i].steps[form] * lengths[i].value();
    }
    return result;
  }
};

template <class... Forms>
__device__ __forceinline__ bool is_kept(LayoutList<Forms...>, FormStarts<sizeof...(Forms)> const& starts, int element) {
  int form = 0;
  return ((starts.of[form++] + Forms{}(element) >= 0) && ...);
}

template <int kVector, uint32_t kBits, class DstLayout, class SrcLayout, class FormList, class Starts, class D, class S>
__global__ void __launch_bounds__(kPartThreads) mask_kernel(D* dst, S const* src, Starts held_starts) {
  tb::grid_launch();
  tb::grid_wait();
  const int vector = static_cast<int>(blockIdx.x) * kPartThreads + static_cast<int>(threadIdx.x);
  if (vector >= size_of<DstLayout> / kVector) return;
  const auto starts = held_starts.at_lengths();
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
  static constexpr int kForms = sizeof...(Forms);
  static_assert(size_of<SrcLayout> == size_of<DstLayout>, "source and destination must have equally many elements");

  // dst(i) = src(i) where all forms are at least 0, else the float of bits kBits, on `queue`. Throws std::runtime_error
  // where the launch fails.
  template <int kLengths = 0, class D, class S>
  static void run(Queue queue, D* dst, S const* src, FormStarts<kForms, kLengths> starts) {
    constexpr int kBytes = static_cast<int>(sizeof(D) < sizeof(S) ? sizeof(D) : sizeof(S));
    constexpr int kVector = Elementwise<ops::Chain<>, DstLayout, SrcLayout>::template vector_length<kBytes>();
    if (kVector > 1 && is_aligned_for<DstLayout, kVector>(dst) && is_aligned_for<SrcLayout, kVector>(src)) {
      launch_vectors<kVector>(queue, dst, src, starts);
    } else {
      launch_vectors<1>(queue, dst, src, starts);
    }
  }

 private:
  template <int kVector, class D, class S, class Starts>
  static void launch_vectors(Queue queue, D* dst, S const* src, Starts starts) {
    const int blocks = ceil_div(size_of<DstLayout> / kVector, kPartThreads);
    launch("kn::Mask", mask_kernel<kVector, kBits, DstLayout, SrcLayout, LayoutList<Forms...>, Starts, D, S>,
           dim3(static_cast<unsigned>(blocks)), dim3(kPartThreads), 0, queue, dst, src, starts);
  }
};

}  // namespace kn
}  // namespace mugraph
