// Conditions on the places of a tile's elements.
//
// A condition is a linear form that is at least 0: `start`, its value at the tile's first element, plus what the
// layout Form makes of the place in the tile.
#pragma once

#include "../layout.h"

namespace mugraph {
namespace tb {

template <class Form>
struct Condition {
  int start;

  // Of an element by its number, or by its row and column.
  template <class... Place>
  __host__ __device__ constexpr bool holds(Place... place) const {
    return start + static_cast<int>(Form{}(place...)) >= 0;
  }

  // Of all elements of a tile of so many rows and columns.
  template <int kRows, int kColumns>
  __host__ __device__ constexpr bool holds_everywhere() const {
    constexpr int kLastRow = static_cast<int>(Form{}(kRows - 1, 0));
    constexpr int kLastColumn = static_cast<int>(Form{}(0, kColumns - 1));
    return start + (kLastRow < 0 ? kLastRow : 0) + (kLastColumn < 0 ? kLastColumn : 0) >= 0;
  }
};

template <class Form>
__host__ __device__ constexpr Condition<Form> where(int start) {
  return {start};
}

}  // namespace tb
}  // namespace mugraph
