// mbarriers, named barriers, tensor maps and bulk copies on the CPU: what arch/bulk_copy.h has on a GPU.
//
// A bulk copy lands when a thread waits at its mbarrier and could not go on without it, or at once in every other
// launch. Arrivals beyond those of a phase, bytes that nobody expects, a box that starts at no multiple of 128 bytes or
// lies outside of shared memory, and copies that are still on their way when the block ends are errors. The swizzle acts
// on addresses, as the hardware's does.
#pragma once

#include <cuda.h>

#include "emulator.h"

#define MUGRAPH_EMULATED_BULK_COPY

namespace emulator {

// What an mbarrier of 8 bytes holds.
struct MBarrier {
  int32_t bytes;
  uint16_t arrivals : 15;
  uint16_t phase : 1;
  uint16_t pending;
};
static_assert(sizeof(MBarrier) == 8);

inline MBarrier& mbarrier_at(uint64_t* barrier) {
  auto* const address = reinterpret_cast<unsigned char*>(barrier);
  if (address < shared_memory || address + 8 > shared_memory + block->shared_bytes) {
    fail("an mbarrier is outside shared memory");
  }
  if (reinterpret_cast<std::uintptr_t>(address) % 8 != 0) fail("an mbarrier is not aligned to 8 bytes");
  return *reinterpret_cast<MBarrier*>(barrier);
}

inline void end_phase_if_complete(MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.arrivals;
  barrier.phase ^= 1;
  ++block->events;
}

inline void arrive(uint64_t* barrier, int32_t bytes) {
  MBarrier& state = mbarrier_at(barrier);
  if (state.pending == 0 || state.pending > state.arrivals) fail("an arrival too many at an mbarrier");
  ++block->events;
  --state.pending;
  state.bytes += bytes;
  end_phase_if_complete(state);
}

// What a tensor map of 128 bytes holds.
struct TensorMap {
  char const* base;
  uint64_t strides[5];  // in bytes
  uint32_t extents[5];
  uint16_t box[5];  // in elements that are moved
  uint8_t steps[5];
  uint8_t rank;
  uint8_t element_bytes;
  uint16_t span;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

inline unsigned char* swizzled(unsigned char* address, unsigned span) {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t mask = span / 16 == 0 ? 0 : span / 16 - 1;
  return reinterpret_cast<unsigned char*>(place ^ ((place >> 7 & mask) << 4));
}

// Moves a box to shared memory, or back where `is_store`; returns the bytes.
inline int copy_box(unsigned char* target, TensorMap const& map, std::array<int, 5> const& start,
                    bool is_store = false) {
  const int bytes = map.element_bytes;
  int moved = 0;
  std::array<int, 5> at{};
  for (bool is_done = false; !is_done;) {
    bool exists = true;
    char* source = const_cast<char*>(map.base);
    for (int i = 0; i < map.rank; ++i) {
      const int64_t coordinate = int64_t{start[i]} + at[i] * map.steps[i];
      exists = exists && coordinate >= 0 && coordinate < map.extents[i];
      source += coordinate * static_cast<int64_t>(map.strides[i]);
    }
    unsigned char* const place = swizzled(target + moved, map.span);
    if (is_store) {
      if (exists) std::memcpy(source, place, bytes);
    } else if (exists) {
      std::memcpy(place, source, bytes);
    } else {
      std::memset(place, 0, bytes);
    }
    moved += bytes;
    is_done = true;
    for (int i = 0; i < map.rank && is_done; ++i) {
      is_done = ++at[i] == map.box[i];
      if (is_done) at[i] = 0;
    }
  }
  return moved;
}

// The tensor map of a bulk copy, checked against the copy's coordinates and its place in shared memory.
inline TensorMap described(CUtensorMap const* map, unsigned char const* place, std::vector<int> const& coordinates) {
  TensorMap description;
  std::memcpy(&description, map, sizeof(description));
  if (description.rank != coordinates.size()) fail("a bulk copy has another rank than its tensor map");
  std::size_t bytes = description.element_bytes;
  for (int i = 0; i < description.rank; ++i) bytes *= description.box[i];
  if (reinterpret_cast<std::uintptr_t>(place) % 128 != 0) fail("a bulk copy starts at no multiple of 128 bytes");
  if (place < shared_memory || place + bytes > shared_memory + block->shared_bytes) {
    fail("a bulk copy reaches outside shared memory");
  }
  return description;
}

// Reads its source when it is waited for, or at once in every other launch.
inline void bulk_store(CUtensorMap const* map, void const* source, std::vector<int> const& coordinates) {
  auto* const place = static_cast<unsigned char*>(const_cast<void*>(source));
  const TensorMap description = described(map, place, coordinates);
  std::array<int, 5> start{};
  std::copy(coordinates.begin(), coordinates.end(), start.begin());
  const auto store = [=] { copy_box(place, description, start, true); };
  if (launches % 2 == 1) store();
  block->bulk_stores.push_back({block->current->thread, launches % 2 == 1 ? [] {} : std::function<void()>(store)});
}

inline void commit_bulk_stores() {
  int& newest = block->current->store_groups;
  for (BulkStore& store : block->bulk_stores) {
    if (store.thread == block->current->thread && store.group < 0) store.group = newest;
  }
  ++newest;
}

// Brings the stores of all committed groups of the thread but the newest `in_flight` to their end.
inline void wait_bulk_stores(int in_flight) {
  auto& stores = block->bulk_stores;
  const int end = block->current->store_groups - in_flight;
  for (std::size_t i = 0; i < stores.size();) {
    if (stores[i].thread != block->current->thread || stores[i].group < 0 || stores[i].group >= end) {
      ++i;
      continue;
    }
    stores[i].store();
    stores.erase(stores.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

inline void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, std::vector<int> const& coordinates) {
  auto* const place = static_cast<unsigned char*>(target);
  const TensorMap description = described(map, place, coordinates);
  std::array<int, 5> start{};
  std::copy(coordinates.begin(), coordinates.end(), start.begin());
  const auto land = [=] {
    MBarrier& state = mbarrier_at(barrier);
    state.bytes -= copy_box(place, description, start);
    end_phase_if_complete(state);
  };
  mbarrier_at(barrier);
  if (block->unfenced.count(barrier) != 0) fail("no fence lets a bulk copy see the mbarrier that it counts at");
  if (launches % 2 == 1) {
    land();
  } else {
    block->bulk_transfers.push_back({barrier, land});
  }
}

// Whether a copy that this mbarrier waits for has been brought to its end.
inline bool land_one(uint64_t* barrier) {
  auto& transfers = block->bulk_transfers;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    if (transfers[i].barrier != barrier) continue;
    const std::function<void()> land = transfers[i].land;
    transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
    land();
    ++block->events;
    return true;
  }
  return false;
}

inline CUresult encode_tensor_map(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* base,
                                  cuuint64_t const* extents, cuuint64_t const* strides, cuuint32_t const* box,
                                  cuuint32_t const* steps, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                                  CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  TensorMap description{};
  const std::map<CUtensorMapDataType, int> sizes = {
      {CU_TENSOR_MAP_DATA_TYPE_UINT8, 1},    {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2}, {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2},
      {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4},  {CU_TENSOR_MAP_DATA_TYPE_INT32, 4},   {CU_TENSOR_MAP_DATA_TYPE_INT64, 8},
  };
  const std::map<CUtensorMapSwizzle, int> spans = {
      {CU_TENSOR_MAP_SWIZZLE_NONE, 0},
      {CU_TENSOR_MAP_SWIZZLE_32B, 32},
      {CU_TENSOR_MAP_SWIZZLE_64B, 64},
      {CU_TENSOR_MAP_SWIZZLE_128B, 128},
  };
  if (rank < 1 || rank > 5 || sizes.count(type) == 0 || spans.count(swizzle) == 0) return CUDA_ERROR_INVALID_VALUE;
  if (reinterpret_cast<std::uintptr_t>(base) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  description.base = static_cast<char const*>(base);
  description.rank = static_cast<uint8_t>(rank);
  description.element_bytes = static_cast<uint8_t>(sizes.at(type));
  description.span = static_cast<uint16_t>(spans.at(swizzle));
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (extents[i] == 0 || extents[i] > 0xffffffffu || box[i] == 0 || box[i] > 256 || steps[i] < 1 ||
        steps[i] > 8) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    description.extents[i] = static_cast<uint32_t>(extents[i]);
    description.steps[i] = static_cast<uint8_t>(i == 0 ? 1 : steps[i]);
    description.box[i] = static_cast<uint16_t>((box[i] + description.steps[i] - 1) / description.steps[i]);
    description.strides[i] = i == 0 ? description.element_bytes : strides[i - 1];
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= 1ull << 40)) return CUDA_ERROR_INVALID_VALUE;
  }
  const std::size_t row = std::size_t{box[0]} * description.element_bytes;
  if (row % 16 != 0 || (description.span != 0 && row > description.span)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &description, sizeof(description));
  return CUDA_SUCCESS;
}

}  // namespace emulator

extern "C" {
inline cudaError_t cudaGetDriverEntryPointByVersion(char const*, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* result) {
  *function = reinterpret_cast<void*>(&emulator::encode_tensor_map);
  *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPoint(char const*, void** function, unsigned long long,
                                           cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(nullptr, function, 0, 0, result);
}
}

namespace mugraph {

inline bool elect_one() { return emulator::block->current->thread % 32 == 0; }

inline void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  emulator::MBarrier& state = emulator::mbarrier_at(barrier);
  state.bytes = 0;
  state.arrivals = static_cast<uint16_t>(arrivals);
  state.pending = static_cast<uint16_t>(arrivals);
  state.phase = 0;
  emulator::block->unfenced[barrier] = emulator::block->current->thread;
}
inline void mbarrier_invalidate(uint64_t* barrier) {
  std::memset(&emulator::mbarrier_at(barrier), 0xff, sizeof(uint64_t));
  for (emulator::BulkTransfer const& transfer : emulator::block->bulk_transfers) {
    if (transfer.barrier == barrier) emulator::fail("a channel ends while a bulk copy is on its way");
  }
}
inline void mbarrier_init_fence() {
  auto& unfenced = emulator::block->unfenced;
  for (auto each = unfenced.begin(); each != unfenced.end();) {
    each = each->second == emulator::block->current->thread ? unfenced.erase(each) : std::next(each);
  }
}
inline void mbarrier_arrive(uint64_t* barrier) { emulator::arrive(barrier, 0); }
inline void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  emulator::arrive(barrier, static_cast<int32_t>(bytes));
}
inline void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  emulator::MBarrier const& state = emulator::mbarrier_at(barrier);
  emulator::Fiber* const self = emulator::block->current;
  while (state.phase == parity) {
    // A phase that is complete but for its bytes: they come now.
    if (state.pending == 0 && emulator::land_one(barrier)) continue;
    emulator::change(*self->context, emulator::block->scheduler);
  }
}
inline void named_barrier(uint32_t number, uint32_t threads) {
  if (number == 0 || number > 15 || threads % 32 != 0) emulator::fail("a named barrier that there is not");
  emulator::wait(emulator::block->named_barriers[number], static_cast<int>(threads));
}
inline void proxy_fence() {}
template <int kRegisters>
void leave_registers() {}
template <int kRegisters>
void take_registers() {}
inline void prefetch_tensor_map(CUtensorMap const*) {}

template <class... Coordinates>
void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, Coordinates... coordinates) {
  emulator::bulk_load(target, map, barrier, {static_cast<int>(coordinates)...});
}
inline uint32_t cluster_rank() { return emulator::block->rank; }
inline void cluster_barrier() {
  emulator::wait(emulator::of_cluster, static_cast<int>(emulator::cluster->size() * emulator::block->fibers.size()));
}
inline void cluster_start() { cluster_barrier(); }
inline void cluster_arrive() {}
inline void cluster_wait() { cluster_barrier(); }
template <class T>
T* in_block(T* place, int rank) {
  return emulator::at_block(place, rank);
}
template <int kBlocks, class T>
void give_to_cluster(T* place) {
  if (threadIdx.x < kBlocks) *in_block(place, threadIdx.x) = *place;
}
inline void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank) {
  emulator::in_block(rank, [&] { emulator::arrive(barrier, 0); });
}
template <int kBlocks, class... Coordinates>
void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, Coordinates... coordinates) {
  for (uint32_t rank = 0; rank < kBlocks; ++rank) {
    emulator::in_block(rank, [&] { bulk_load(target, map, barrier, coordinates...); });
  }
}
template <class... Coordinates>
void bulk_store(CUtensorMap const* map, void const* source, Coordinates... coordinates) {
  emulator::bulk_store(map, source, {static_cast<int>(coordinates)...});
}
inline void commit_bulk_stores() { emulator::commit_bulk_stores(); }
template <int kInFlight>
void wait_bulk_stores() {
  emulator::wait_bulk_stores(kInFlight);
}
inline void wait_bulk_stores() {
  commit_bulk_stores();
  wait_bulk_stores<0>();
}
inline void complete_bulk_stores() { wait_bulk_stores(); }

}  // namespace mugraph
