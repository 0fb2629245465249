// Tables of rows in groups, such as the tokens of experts: a counting sort, and how groups fall into tiles.
//
// Lists lie with a step between their elements. Numbers are whole, so that the same input gives the same tables
// whatever the order in which threads count.
#pragma once

#include "copy.h"

namespace mugraph {
namespace kn {

// Threads of a block, and the rows that it has.
inline constexpr int kTableThreads = 256;
// Groups that a block can count in shared memory.
inline constexpr int kMostGroups = 4096;

// A list in memory, of elements kStep apart.
template <class T, int kStep>
struct List {
  T* start;

  __device__ __forceinline__ T& operator[](int place) const { return *(start + static_cast<long long>(place) * kStep); }
};

template <int kRows, int kGroups, int kSize, int kTiles, class Ends, class Groups, class Starts, class Places,
          class Count>
__global__ void __launch_bounds__(kTableThreads) group_tiles_kernel(Ends ends, Groups groups, Starts starts,
                                                                    Places places, Count count) {
  tb::grid_launch();
  tb::grid_wait();
  const int own = static_cast<int>(blockIdx.x) * kTableThreads + static_cast<int>(threadIdx.x);
  // All ends at once: each thread goes through them, one after the other.
  constexpr int kHeld = kGroups <= kMostGroups ? kGroups : 1;
  MUGRAPH_STATIC_SHARED int held[kHeld];
  const auto end_of = [&](int group) {
    const long long written = ends[group];
    return static_cast<int>(written < 0 ? 0 : written < kRows ? written : kRows);
  };
  if constexpr (kHeld == kGroups) {
    for (int group = static_cast<int>(threadIdx.x); group < kGroups; group += kTableThreads) held[group] = end_of(group);
    __syncthreads();
  }
  // The first row and the first tile of a group, and how far into the tiles a row is.
  int start = 0;
  int first = 0;
  int group_of_tile = kGroups - 1;
  int start_of_tile = kRows - kSize;
  for (int group = 0; group < kGroups; ++group) {
    const int written = group == kGroups - 1 ? kRows : kHeld == kGroups ? held[group] : end_of(group);
    const int end = written < start ? start : written;
    const int tiles = (end - start + kSize - 1) / kSize;
    if (own >= first && own < first + tiles) {
      const int row = start + (own - first) * kSize;
      group_of_tile = group;
      start_of_tile = row < kRows - kSize ? row : kRows - kSize;
    }
    if (own >= start && own < end) {
      const int tile = (own - start) / kSize;
      const int row = start + tile * kSize;
      const int begin = row < kRows - kSize ? row : kRows - kSize;
      places[own] = (first + tile) * kSize + own - begin;
    }
    start = end;
    first += tiles;
  }
  if (own == 0) count[0] = first;
  if (own < kTiles) {
    groups[own] = group_of_tile;
    starts[own] = start_of_tile;
  }
}

// The tables of `kn.group_tiles`.
template <int kRows, int kGroups, int kSize, int kTiles, int kEndStep, int kGroupStep, int kStartStep, int kPlaceStep,
          int kCountStep>
struct GroupTiles {
  template <class Index>
  static void run(Queue queue, int* groups, int* starts, int* places, int* count, Index const* ends) {
    using Ends = List<Index const, kEndStep>;
    using Groups = List<int, kGroupStep>;
    using Starts = List<int, kStartStep>;
    using Places = List<int, kPlaceStep>;
    using Count = List<int, kCountStep>;
    constexpr int kLonger = kRows > kTiles ? kRows : kTiles;
    launch("kn::GroupTiles", group_tiles_kernel<kRows, kGroups, kSize, kTiles, Ends, Groups, Starts, Places, Count>,
           dim3(static_cast<unsigned>(ceil_div(kLonger, kTableThreads))), dim3(kTableThreads), 0, queue, Ends{ends},
           Groups{groups}, Starts{starts}, Places{places}, Count{count});
  }
};

template <int kRows, int kCount, class Groups, class Order, class Places, class Ends>
__global__ void __launch_bounds__(kTableThreads) sort_groups_kernel(Groups groups, Order order, Places places,
                                                                    Ends ends) {
  tb::grid_launch();
  tb::grid_wait();
  // Rows of each group: all, and those in front of this block's. Then where each group starts.
  MUGRAPH_STATIC_SHARED int all[kCount];
  MUGRAPH_STATIC_SHARED int before[kCount];
  MUGRAPH_STATIC_SHARED int mine[kTableThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * kTableThreads;
  const auto group_of = [&](int row) {
    const long long group = groups[row];
    return static_cast<int>(group < 0 ? 0 : group < kCount ? group : kCount - 1);
  };
  for (int group = thread; group < kCount; group += kTableThreads) {
    all[group] = 0;
    before[group] = 0;
  }
  __syncthreads();
  for (int row = thread; row < kRows; row += kTableThreads) {
    const int group = group_of(row);
    atomicAdd(&all[group], 1);
    if (row < first) atomicAdd(&before[group], 1);
  }
  const int row = first + thread;
  if (row < kRows) mine[thread] = group_of(row);
  __syncthreads();
  if (row < kRows) {
    int place = before[mine[thread]];
    for (int group = 0; group < mine[thread]; ++group) place += all[group];
    for (int other = 0; other < thread; ++other) place += mine[other] == mine[thread] ? 1 : 0;
    places[row] = place;
    order[place] = row;
  }
  if (first > 0) return;
  for (int group = thread; group < kCount; group += kTableThreads) {
    int end = 0;
    for (int other = 0; other <= group; ++other) end += all[other];
    ends[group] = end;
  }
}

// The tables of `kn.sort_groups`.
template <int kRows, int kCount, int kGroupStep, int kOrderStep, int kPlaceStep, int kEndStep>
struct SortGroups {
  template <class Index>
  static void run(Queue queue, int* order, int* places, int* ends, Index const* groups) {
    using Groups = List<Index const, kGroupStep>;
    using Order = List<int, kOrderStep>;
    using Places = List<int, kPlaceStep>;
    using Ends = List<int, kEndStep>;
    launch("kn::SortGroups", sort_groups_kernel<kRows, kCount, Groups, Order, Places, Ends>,
           dim3(static_cast<unsigned>(ceil_div(kRows, kTableThreads))), dim3(kTableThreads), 0, queue, Groups{groups},
           Order{order}, Places{places}, Ends{ends});
  }
};

// Two dimensions of a tensor, whose elements are counted in row-major order.
template <int kOuter, int kOuterStep, int kInner, int kInnerStep>
struct Table {
  static constexpr int kCount = kOuter * kInner;
  int* start;

  __device__ __forceinline__ int& operator[](int place) const {
    return *(start + static_cast<long long>(place / kInner) * kOuterStep +
             static_cast<long long>(place % kInner) * kInnerStep);
  }
};

template <class Rows>
__global__ void __launch_bounds__(kTableThreads) no_rows_kernel(Rows rows) {
  tb::grid_launch();
  tb::grid_wait();
  const int own = static_cast<int>(blockIdx.x) * kTableThreads + static_cast<int>(threadIdx.x);
  if (own < Rows::kCount) rows[own] = -1;
}

template <int kRows, class Places, class Rows>
__global__ void __launch_bounds__(kTableThreads) invert_places_kernel(Places places, Rows rows) {
  tb::grid_launch();
  tb::grid_wait();
  const int own = static_cast<int>(blockIdx.x) * kTableThreads + static_cast<int>(threadIdx.x);
  if (own >= kRows) return;
  const long long place = places[own];
  if (place >= 0 && place < Rows::kCount) rows[static_cast<int>(place)] = own;
}

// The table of `kn.invert_places`.
template <int kRows, int kPlaceStep, int... kTable>
struct InvertPlaces {
  template <class Index>
  static void run(Queue queue, int* rows, Index const* places) {
    using Places = List<Index const, kPlaceStep>;
    using Rows = Table<kTable...>;
    launch("kn::InvertPlaces", no_rows_kernel<Rows>,
           dim3(static_cast<unsigned>(ceil_div(Rows::kCount, kTableThreads))), dim3(kTableThreads), 0, queue,
           Rows{rows});
    launch("kn::InvertPlaces", invert_places_kernel<kRows, Places, Rows>,
           dim3(static_cast<unsigned>(ceil_div(kRows, kTableThreads))), dim3(kTableThreads), 0, queue, Places{places},
           Rows{rows});
  }
};

}  // namespace kn
}  // namespace mugraph
