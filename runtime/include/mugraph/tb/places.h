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

// The number that device memory holds, from 0 to `largest`; the nearest one for others.
template <class Number>
__device__ __forceinline__ int length_in(Number const* held, int largest) {
  const Number number = *held;
  return number < 0 ? 0 : number > largest ? largest : static_cast<int>(number);
}

// What is at least 0 in iterations that a block runs: rest + kStep * iteration.
template <int kStep>
struct IterationBound {
  int rest;
};

template <int kStep>
__host__ __device__ constexpr IterationBound<kStep> bound(int rest) {
  return {rest};
}

// The iterations of a block: `count` of them, of which the first one has the tile `first`.
struct Span {
  int first;
  int count;
};

// Those of kMost in which all bounds hold, kFewest at least.
template <int kMost, int kFewest = 1, int... kSteps>
__host__ __device__ constexpr Span span(IterationBound<kSteps>... bounds) {
  int first = 0, end = kMost;
  const auto keep = [&](int rest, int step) {
    if (step > 0 && rest < 0) first = cute::max(first, (-rest + step - 1) / step);
    if (step < 0) end = cute::min(end, rest < 0 ? 0 : rest / -step + 1);
  };
  (keep(bounds.rest, kSteps), ...);
  first = cute::min(first, kMost - 1);
  return {first, cute::max(end - first, kFewest)};
}

// How many of kMost blocks that share a loop take tiles of it, where `blocks` are launched in all and kAtOnce run at
// once: the number with which the loops take least, the largest one of several. Turns are shared by that many.
template <int kMost, int kAtOnce>
__host__ __device__ constexpr int parts_of(unsigned blocks) {
  const int groups = static_cast<int>(blocks) / kMost;
  int best = kMost, turns = (groups * kMost + kAtOnce - 1) / kAtOnce;
  for (int parts = kMost - 1; parts > 0; --parts) {
    const int other = (groups * parts + kAtOnce - 1) / kAtOnce;
    if (other * best < turns * parts) {
      best = parts;
      turns = other;
    }
  }
  return best;
}

// The tiles of one of `parts` blocks that take `tiles` tiles in turn; none of a block behind them.
__host__ __device__ constexpr Span part_of(int tiles, int block, int parts) {
  return {0, block < parts && block < tiles ? (tiles - block - 1) / parts + 1 : 0};
}

}  // namespace tb
}  // namespace mugraph
