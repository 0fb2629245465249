// Runs CUDA kernels on the CPU, one at a time, so that the runtime's headers can be tested without a GPU.
//
// Compile a .cu file as C++17 with `g++ -x c++ -include emulator.h -I <this folder> ...` and CUDA's and CUTLASS's
// headers on the include path; kernels are started with cudaLaunchKernel (mugraph::launch does so). Every GPU thread
// is a fiber; fibers change at barriers and at warp-wide instructions only, so data races are not found, but their
// order, and that of the blocks of a cooperative launch, which run in turns, is reversed at every other launch (and may
// be drawn: emulator::drawn_order). In a kernel that overlaps with the one before it, device memory that is not
// marked as constant faults until the block's first grid_wait(), which every block must reach; but for what the one
// before it left as it was, if each of its blocks had waited before it let the next kernel start. What is emulated
// faithfully: who holds what in ldmatrix and mma, cp.async copies that land no sooner than they are waited for, mbarriers and bulk copies (bulk_copy.h), shared memory that
// starts as NaN, and faults for accesses past
// the end of a cudaMalloc and for ldmatrix lines outside shared memory or not aligned. Device code declares its
// dynamic shared memory as `extern __shared__ ... unsigned char shared_memory[]`.
#pragma once

#include <cuda_runtime.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)
// How many blocks a cluster has is said by whoever launches: emulator::cluster_size.
#undef __cluster_dims__
#define __cluster_dims__(...)
// Static shared memory: blocks run one after the other, and all threads of one are fibers of this thread.
#define MUGRAPH_STATIC_SHARED static
#define MUGRAPH_GRID_WAIT emulator::grid_wait
#define MUGRAPH_GRID_LAUNCH emulator::grid_launch
#define MUGRAPH_KERNEL emulator::Kernel
#define MUGRAPH_ACQUIRE_COUNT emulator::acquire_count

inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
alignas(1024) inline unsigned char shared_memory[232448];

namespace emulator {

[[noreturn]] inline void fail(char const* message) {
  std::fprintf(stderr, "emulator: %s (block %u, thread %u)\n", message, blockIdx.x, threadIdx.x);
  std::exit(3);
}

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};

struct Transfer {
  void* target;
  void const* source;
  std::size_t bytes;
};

// Where something stopped. Changing by _longjmp makes no system call, as swapcontext does: only the first step on a
// stack of its own takes a ucontext.
struct Context {
  jmp_buf place;
  bool has_started = true;
  ucontext_t start;
  std::unique_ptr<char[]> stack;
};

// Goes on where `to` stopped, until something changes to `from`.
__attribute__((noinline)) inline void change(Context& from, Context& to) {
  if (_setjmp(from.place) != 0) return;
  if (to.has_started) _longjmp(to.place, 1);
  to.has_started = true;
  setcontext(&to.start);
}

struct Fiber {
  Context* context = nullptr;
  uint3 index{};
  int thread = 0;
  bool is_done = false;
  Barrier const* awaited = nullptr;  // until its generation is not this one
  unsigned generation = 0;
  std::vector<std::vector<Transfer>> groups = std::vector<std::vector<Transfer>>(1);
  int store_groups = 0;  // of bulk stores, committed
  std::vector<std::vector<std::function<void()>>> products = std::vector<std::vector<std::function<void()>>>(1);
};

struct Warp {
  std::array<std::array<unsigned char, 64>, 32> slots{};
  std::array<std::array<unsigned char, 16>, 32> results{};
  std::map<unsigned, Barrier> barriers;
};

// A bulk copy on its way: `land` brings its bytes and counts them at the mbarrier.
struct BulkTransfer {
  uint64_t* barrier;
  std::function<void()> land;
};

// A bulk copy to device memory that has not read its source yet.
struct BulkStore {
  int thread;
  std::function<void()> store;
  int group = -1;  // of those of the thread; not committed yet
};

struct Block {
  std::map<unsigned, Barrier> named_barriers;
  std::vector<BulkTransfer> bulk_transfers;
  std::vector<BulkStore> bulk_stores;
  std::map<uint64_t*, int> unfenced;  // mbarriers that bulk copies may not see, and who has set each up
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barrier;
  Context scheduler;
  Fiber* current = nullptr;
  unsigned events = 0;
  std::size_t shared_bytes = 0;
  std::function<void()> body;
  // Of a cluster whose blocks run in turns: the block's place, and its shared memory while others run.
  uint3 index{};
  unsigned rank = 0;
  bool has_begun = false;
  int running = 0;
  std::vector<unsigned char> saved;
};

constexpr std::size_t kPage = 4096;

// Device memory: what cudaMalloc gave, and whether nothing that runs beside a kernel writes to it.
struct Allocation {
  char* start;
  std::size_t bytes;
  bool is_constant = false;
  bool is_settled = false;  // the kernel before this one waited before it let this one start, and left it as it was
  std::size_t content = 0;  // a hash, from before the kernel that runs
};

inline std::vector<Allocation> allocations;
inline std::size_t alignment = 16;  // of what cudaMalloc gives; of a GPU's own it is 256
inline bool waits_for_grids = false;  // the kernel that runs was launched to overlap
inline bool has_waited = true;
inline bool starts_next_early = false;  // a block of the kernel that runs lets the next one start before it has waited

inline std::size_t content_of(Allocation const& allocation) {
  return std::hash<std::string_view>{}({allocation.start, allocation.bytes});
}

// What is settled when the next kernel starts.
inline void settle() {
  for (Allocation& allocation : allocations) {
    allocation.is_settled = !starts_next_early && allocation.content == content_of(allocation);
  }
}

inline void protect(int protection) {
  for (Allocation const& allocation : allocations) {
    if (!allocation.is_constant && !allocation.is_settled) mprotect(allocation.start, allocation.bytes, protection);
  }
}

// The allocation that a pointer points into holds nothing that other kernels write.
inline void mark_constant(void const* pointer) {
  for (Allocation& allocation : allocations) {
    char const* const at = static_cast<char const*>(pointer);
    if (at >= allocation.start && at < allocation.start + allocation.bytes) allocation.is_constant = true;
  }
}

inline void grid_wait() {
  if (has_waited) return;
  has_waited = true;
  protect(PROT_READ | PROT_WRITE);
}

inline void grid_launch() { starts_next_early = starts_next_early || !has_waited; }

inline Block* block = nullptr;
inline unsigned launches = 0;
inline unsigned drawn_order = 0;  // not 0: in each turn a thread runs at random or not, in an order drawn of this number
inline std::mt19937 generator;
inline unsigned cluster_size = 1;
inline std::vector<Block>* cluster = nullptr;
inline Barrier of_cluster;

// Makes a block of the cluster the one that runs.
inline void activate(Block* next) {
  if (block == next) return;
  block->saved.assign(shared_memory, shared_memory + block->shared_bytes);
  block = next;
  std::memcpy(shared_memory, next->saved.data(), next->saved.size());
  blockIdx = next->index;
}

// Does something as if it stood in another block of the cluster.
template <class Action>
void in_block(unsigned rank, Action const& action) {
  Block* const self = block;
  activate(&cluster->at(rank));
  action();
  activate(self);
}

// Where another block of the cluster, which must run, has what lies at a place of this one's shared memory.
template <class T>
T* at_block(T* place, unsigned rank) {
  Block const& other = cluster->at(rank);
  if (!other.has_begun) fail("shared memory of a block that may not run yet");
  if (other.running == 0) fail("shared memory of a block that has ended");
  if (&other == block) return place;
  auto const offset = reinterpret_cast<unsigned char const*>(place) - shared_memory;
  return reinterpret_cast<T*>(const_cast<unsigned char*>(other.saved.data()) + offset);
}

inline void wait(Barrier& barrier, int expected) {
  ++block->events;
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  Fiber* const self = block->current;
  self->awaited = &barrier;
  self->generation = generation;
  change(*self->context, block->scheduler);
  self->awaited = nullptr;
}

// Others run before a count is looked at.
inline unsigned acquire_count(unsigned const* counter) {
  change(*block->current->context, block->scheduler);
  return *counter;
}

// All threads of the block that have not ended.
inline void sync_block() { wait(block->barrier, block->running); }

// All threads of the warp that there are, at this very instruction.
inline void sync_warp() {
  const int first = block->current->thread / 32 * 32;
  const int lanes = std::min(32, static_cast<int>(block->fibers.size()) - first);
  wait(block->warps[first / 32].barriers[0xffffffffu >> (32 - lanes)], lanes);
}

// What each lane of `mask` passed in; all of them must call.
template <class T>
std::array<T, 32> exchange(unsigned mask, T const& value) {
  static_assert(sizeof(T) <= 64);
  const int thread = block->current->thread;
  if ((mask >> (thread % 32) & 1u) == 0) fail("a thread calls a warp instruction that its mask leaves out");
  Warp& warp = block->warps[thread / 32];
  std::memcpy(warp.slots[thread % 32].data(), &value, sizeof(T));
  Barrier& barrier = warp.barriers[mask];
  wait(barrier, __builtin_popcount(mask));
  std::array<T, 32> values{};
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1u) std::memcpy(&values[lane], warp.slots[lane].data(), sizeof(T));
  }
  wait(barrier, __builtin_popcount(mask));
  return values;
}

inline void require_whole_warp() {
  if (block->current->thread / 32 * 32 + 32 > static_cast<int>(block->fibers.size())) {
    fail("a tensor-core instruction is executed by a warp of fewer than 32 threads");
  }
}

template <class T>
std::array<T, 32> exchange_warp(T const& value) {
  require_whole_warp();
  return exchange(0xffffffffu, value);
}

// An instruction of a whole warp that accesses no memory: the lane that comes last computes the results of all, which
// stay until all have come to the next one.
template <class Result, class T>
Result execute_warp(T const& value, void (*compute)(std::array<T, 32> const&, std::array<Result, 32>&)) {
  static_assert(sizeof(T) <= 64 && sizeof(Result) <= 16);
  require_whole_warp();
  const int thread = block->current->thread;
  Warp& warp = block->warps[thread / 32];
  std::memcpy(warp.slots[thread % 32].data(), &value, sizeof(T));
  Barrier& barrier = warp.barriers[0xffffffffu];
  if (barrier.arrived == 31) {
    std::array<T, 32> values;
    std::array<Result, 32> results;
    for (int lane = 0; lane < 32; ++lane) std::memcpy(&values[lane], warp.slots[lane].data(), sizeof(T));
    compute(values, results);
    for (int lane = 0; lane < 32; ++lane) std::memcpy(warp.results[lane].data(), &results[lane], sizeof(Result));
  }
  wait(barrier, 32);
  Result result;
  std::memcpy(&result, warp.results[thread % 32].data(), sizeof(Result));
  return result;
}

// shfl.sync of a whole warp; `mode` is the first letter of bfly, down, up or idx.
template <class T>
T shuffle(char mode, T value, int distance, int clamp) {
  const std::array<T, 32> all = exchange_warp(value);
  const int lane = block->current->thread % 32;
  distance &= 31;
  const int same = clamp >> 8 & 31;
  const int last = (lane & same) | (clamp & 31 & ~same);
  const int source = mode == 'b'   ? lane ^ distance
                     : mode == 'd' ? lane + distance
                     : mode == 'u' ? lane - distance
                                   : (lane & same) | (distance & ~same);
  return all[(mode == 'u' ? source >= last : source <= last) ? source : lane];
}

// A line of a matrix, which must be of shared memory.
inline unsigned char* matrix_line(void const* line) {
  unsigned char* const address = static_cast<unsigned char*>(const_cast<void*>(line));
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) fail("a line of a matrix is not aligned to 16 bytes");
  if (address < shared_memory || address + 16 > shared_memory + block->shared_bytes) {
    fail("a line of a matrix is outside shared memory");
  }
  return address;
}

// stmatrix of kCount matrices: as ldmatrix, the other way.
template <int kCount, bool kTransposed>
void stmatrix(void const* line, std::array<uint32_t, kCount> const& registers) {
  const int lane = block->current->thread % 32;
  const std::array<void const*, 32> lines = exchange_warp(line);
  for (int q = 0; q < kCount; ++q) {
    for (int e = 0; e < 2; ++e) {
      const int row = kTransposed ? 2 * (lane % 4) + e : lane / 4;
      const int column = kTransposed ? lane / 4 : 2 * (lane % 4) + e;
      const uint16_t element = static_cast<uint16_t>(registers[q] >> 16 * e);
      std::memcpy(matrix_line(lines[8 * q + row]) + 2 * column, &element, 2);
    }
  }
}

// ldmatrix of kCount matrices; see arch/tensor_core.h for who gets what.
template <int kCount, bool kTransposed>
void ldmatrix(void const* line, uint32_t* registers) {
  const int lane = block->current->thread % 32;
  const std::array<void const*, 32> lines = exchange_warp(line);
  for (int q = 0; q < kCount; ++q) {
    uint16_t elements[2];
    for (int e = 0; e < 2; ++e) {
      const int row = kTransposed ? 2 * (lane % 4) + e : lane / 4;
      const int column = kTransposed ? lane / 4 : 2 * (lane % 4) + e;
      std::memcpy(&elements[e], matrix_line(lines[8 * q + row]) + 2 * column, 2);
    }
    registers[q] = elements[0] | static_cast<uint32_t>(elements[1]) << 16;
  }
}

// A null source writes zeros.
inline void async_copy(void* target, void const* source, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(target) % bytes != 0 || reinterpret_cast<std::uintptr_t>(source) % bytes != 0) {
    fail("an address of cp.async is not a multiple of its size");
  }
  block->current->groups.back().push_back({target, source, bytes});
}

inline void async_commit() { block->current->groups.emplace_back(); }

// Lets the copies of all but the newest `in_flight` committed groups land.
inline void async_wait(int in_flight) {
  auto& groups = block->current->groups;
  while (static_cast<int>(groups.size()) - 1 > in_flight) {
    for (Transfer const& transfer : groups.front()) {
      if (transfer.source == nullptr) {
        std::memset(transfer.target, 0, transfer.bytes);
      } else {
        std::memcpy(transfer.target, transfer.source, transfer.bytes);
      }
    }
    groups.erase(groups.begin());
  }
}

// What a thread has of a product of warp groups: computed when it is waited for, or at once in every other launch.
inline void begin_product(std::function<void()> product) {
  if (launches % 2 == 1) return product();
  block->current->products.back().push_back(std::move(product));
}

inline void commit_products() { block->current->products.emplace_back(); }

// A warp waits as a whole.
inline void wait_products(int in_flight) {
  sync_warp();
  auto& products = block->current->products;
  while (static_cast<int>(products.size()) - 1 > in_flight) {
    for (auto const& product : products.front()) product();
    products.erase(products.begin());
  }
  sync_warp();
}

// Runs the thread of one block after the other.
inline void enter() {
  while (true) {
    block->body();
    block->current->is_done = true;
    ++block->events;
    change(*block->current->context, block->scheduler);
  }
}

// One for each thread of a cluster. The next block goes on with them, on stacks that are as the last one left them.
inline Context& context_of(std::size_t number) {
  constexpr std::size_t kStack = 256 * 1024;
  static std::vector<std::unique_ptr<Context>> contexts;
  while (contexts.size() <= number) {
    Context& made = *contexts.emplace_back(new Context);
    made.stack.reset(new char[kStack]);
    getcontext(&made.start);
    made.start.uc_stack.ss_sp = made.stack.get();
    made.start.uc_stack.ss_size = kStack;
    made.start.uc_link = nullptr;
    makecontext(&made.start, enter, 0);
    made.has_started = false;
  }
  return *contexts[number];
}

inline void begin_block(dim3 size) {
  const int threads = static_cast<int>(size.x * size.y * size.z);
  block->fibers.resize(threads);
  block->warps.resize((threads + 31) / 32);
  std::memset(shared_memory, 0xff, sizeof(shared_memory));
  for (int thread = 0; thread < threads; ++thread) {
    Fiber& fiber = block->fibers[thread];
    fiber.thread = thread;
    fiber.index = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
    fiber.context = &context_of(block->rank * static_cast<std::size_t>(threads) + thread);
  }
  block->running = threads;
}

// Each thread of the block that runs, up to where it must wait.
inline void step_block() {
  block->has_begun = true;
  const int threads = static_cast<int>(block->fibers.size());
  std::vector<int> order(threads);
  std::iota(order.begin(), order.end(), 0);
  if (launches % 2 == 1) std::reverse(order.begin(), order.end());
  if (drawn_order != 0) {
    std::shuffle(order.begin(), order.end(), generator);
    order.resize(1 + generator() % order.size());
  }
  for (int number : order) {
    Fiber& fiber = block->fibers[number];
    if (fiber.is_done || (fiber.awaited != nullptr && fiber.awaited->generation == fiber.generation)) continue;
    block->current = &fiber;
    threadIdx = fiber.index;
    change(block->scheduler, *fiber.context);
    if (!fiber.is_done) continue;
    --block->running;
    Barrier& barrier = block->barrier;
    if (barrier.arrived > 0 && barrier.arrived == block->running) {
      barrier.arrived = 0;
      ++barrier.generation;
    }
  }
}

inline void end_block() {
  if (!block->bulk_stores.empty()) fail("the block ends while a bulk copy to device memory may still read");
  if (!block->bulk_transfers.empty()) fail("the block ends while a bulk copy is on its way");
}

// The blocks of a cluster in turns.
inline void run_cluster(std::vector<Block>& blocks, dim3 size) {
  cluster = &blocks;
  block = &blocks.front();
  of_cluster = {};
  for (Block& each : blocks) {
    activate(&each);
    blockIdx = each.index;
    begin_block(size);
  }
  // Of a drawn order those that can go on are not in every turn.
  const int patience = drawn_order == 0 ? 1 : 100;
  for (int running = 1, idle = 0; running > 0;) {
    running = 0;
    unsigned events = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Block& each = blocks[launches % 2 == 0 ? i : blocks.size() - 1 - i];
      if (each.running == 0) continue;
      activate(&each);
      const unsigned before = each.events;
      step_block();
      events += each.events - before;
      running += each.running;
    }
    idle = events == 0 ? idle + 1 : 0;
    if (running > 0 && idle == patience) fail("deadlock: threads wait for others that never come");
  }
  for (Block& each : blocks) {
    activate(&each);
    end_block();
  }
}

// A kernel, and how it is called with pointers to its parameters. Of what emulates, only that call is compiled for each
// list of parameters.
struct Kernel {
  template <class... Parameters>
  explicit Kernel(void (*kernel)(Parameters...))
      : function(reinterpret_cast<void (*)()>(kernel)),
        call([](void (*function_)(), void** arguments) {
          call_with<Parameters...>(reinterpret_cast<void (*)(Parameters...)>(function_), arguments,
                                   std::index_sequence_for<Parameters...>{});
        }) {}

  template <class... Parameters, std::size_t... I>
  static void call_with(void (*kernel)(Parameters...), void** arguments, std::index_sequence<I...>) {
    kernel(*static_cast<Parameters*>(arguments[I])...);
  }

  void (*function)();
  void (*call)(void (*)(), void**);
};

}  // namespace emulator

inline cudaError_t cudaLaunchKernel(emulator::Kernel kernel, dim3 grid, dim3 size, void** arguments,
                                    std::size_t shared_bytes, cudaStream_t) {
  const std::size_t threads = std::size_t{size.x} * size.y * size.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || shared_bytes > sizeof(shared_memory)) {
    return cudaErrorInvalidConfiguration;
  }
  gridDim = grid;
  blockDim = size;
  emulator::generator.seed(emulator::drawn_order);
  emulator::starts_next_early = false;
  for (emulator::Allocation& allocation : emulator::allocations) allocation.content = emulator::content_of(allocation);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; x += emulator::cluster_size) {
        std::vector<emulator::Block> blocks(emulator::cluster_size);
        for (unsigned rank = 0; rank < blocks.size(); ++rank) {
          blocks[rank].index = {x + rank, y, z};
          blocks[rank].rank = rank;
          blocks[rank].shared_bytes = shared_bytes;
          blocks[rank].body = [&] { kernel.call(kernel.function, arguments); };
        }
        emulator::has_waited = !emulator::waits_for_grids;
        if (emulator::waits_for_grids) emulator::protect(PROT_NONE);
        emulator::run_cluster(blocks, size);
        if (!emulator::has_waited) emulator::fail("a block of an overlapping kernel ends without a grid_wait");
      }
    }
  }
  emulator::settle();
  ++emulator::launches;
  return cudaSuccess;
}

// Launched to overlap; or cooperatively, so that all blocks run in turns, as those of a cluster do.
inline cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, emulator::Kernel kernel, void** arguments) {
  const bool is_cooperative = config->attrs[0].id == cudaLaunchAttributeCooperative;
  const unsigned before = emulator::cluster_size;
  emulator::waits_for_grids = !is_cooperative;
  if (is_cooperative) emulator::cluster_size = config->gridDim.x;
  const cudaError_t status =
      cudaLaunchKernel(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes, config->stream);
  emulator::waits_for_grids = false;
  emulator::cluster_size = before;
  return status;
}

inline cudaError_t cudaFuncSetAttribute(emulator::Kernel, cudaFuncAttribute, int value) {
  return value <= static_cast<int>(sizeof(shared_memory)) ? cudaSuccess : cudaErrorInvalidValue;
}

extern "C" {
// Allocations end at a page that must not be touched, so reading past the end faults.
inline cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  constexpr std::size_t kPage = emulator::kPage;
  const std::size_t unit = emulator::alignment;
  const std::size_t rounded = std::max<std::size_t>((bytes + unit - 1) / unit * unit, unit);
  const std::size_t pages = (rounded + kPage - 1) / kPage * kPage;
  void* const memory = mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return cudaErrorMemoryAllocation;
  mprotect(static_cast<char*>(memory) + pages, kPage, PROT_NONE);
  *pointer = static_cast<char*>(memory) + pages - rounded;
  std::memset(memory, 0xff, pages);  // NaN, until something is written
  emulator::allocations.push_back({static_cast<char*>(memory), pages});
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer) {
  auto& all = emulator::allocations;
  const auto found = std::find_if(all.begin(), all.end(), [&](emulator::Allocation const& allocation) {
    return pointer >= allocation.start && pointer < allocation.start + allocation.bytes;
  });
  if (found == all.end()) return pointer == nullptr ? cudaSuccess : cudaErrorInvalidValue;
  munmap(found->start, found->bytes + emulator::kPage);
  all.erase(found);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* target, void const* source, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(target, source, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline char const* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorInvalidConfiguration ? "invalid configuration argument" : "emulated error";
}
inline char const* cudaGetErrorName(cudaError_t status) {
  return status == cudaErrorInvalidConfiguration ? "cudaErrorInvalidConfiguration" : "cudaErrorEmulated";
}
}

inline void __syncthreads() { emulator::sync_block(); }

inline void __syncwarp() { emulator::sync_warp(); }

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  const int lane = emulator::block->current->thread % 32;
  return emulator::exchange(mask, value)[lane ^ distance];
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, int distance) {
  const int lane = emulator::block->current->thread % 32;
  return emulator::exchange(mask, value)[lane < distance ? lane : lane - distance];
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return emulator::exchange(mask, value)[lane % 32];
}

inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
template <class Number>
Number atomicAdd(Number* place, Number value) {
  const Number before = *place;
  *place += value;
  return before;
}
inline float cospif(float x) { return static_cast<float>(std::cos(x * 3.14159265358979323846)); }
inline float sinpif(float x) { return static_cast<float>(std::sin(x * 3.14159265358979323846)); }
inline float __fdividef(float x, float y) { return x / y; }
inline int __float2int_rn(float value) {
  if (!(value == value)) return 0;
  if (value >= 2147483648.0f) return 2147483647;
  return value < -2147483648.0f ? -2147483647 - 1 : static_cast<int>(std::nearbyint(value));
}
inline long long __float2ll_rn(float value) {
  constexpr long long kMax = 9223372036854775807LL;
  if (value >= 9223372036854775808.0f) return kMax;
  return value >= -9223372036854775808.0f ? static_cast<long long>(std::nearbyint(value)) : -kMax - 1;
}

#include "bulk_copy.h"
