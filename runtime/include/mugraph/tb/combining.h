// How one number is made of two in sums and maxima: floats by Combine (ops::Add or ops::Max), whole numbers by adding.
#pragma once

#include "../ops.h"

namespace mugraph {
namespace tb {

template <class Combine, class N>
__device__ __forceinline__ N combine(N x, N y) {
  if constexpr (cute::is_same<N, float>::value) {
    return Combine::apply(x, y);
  } else {
    static_assert(cute::is_same<Combine, ops::Add>::value, "integers are added up only");
    return plus(x, y);
  }
}

// What changes no number that it is combined with.
template <class Combine, class N>
__device__ __forceinline__ N identity() {
  if constexpr (cute::is_same<N, float>::value) {
    return Combine::identity();
  } else {
    return N(0);
  }
}

}  // namespace tb
}  // namespace mugraph
