// Sums so far, or linear recurrences, along one dimension of a whole tensor, as one kernel: one read, one write.
//
// Runs says where the elements of a run are: Starts, where each run's first one is, congruent over the runs in all
// tensors (mode 0 innermost), and kStep, how far neighbours are apart; a tensor that is broadcast has steps of 0. All is
// fp32, in an order that follows from the layouts and types alone, so results are the same bits each time, whatever the
// alignment of the pointers.
//
// A block has some runs. In each round the lanes of a run take kHeld neighbours each, scan them in registers, scan what
// each makes of the number before its own by shuffles and then, over warps, through shared memory, and carry the end of
// the round into the next one, whose elements are loaded meanwhile. Lanes are neighbouring threads where the elements
// of a run are neighbours in memory; otherwise neighbouring threads have neighbouring runs.
//
// Few long runs of sums have several blocks each. A block first adds up what lies before its part, which takes no
// barriers and comes out of the L2 cache: that is faster than the rounds that it saves, and needs no second kernel.
#pragma once

#include "../arch/grid_dependency.h"
#include "../launch.h"
#include "group_sum.h"

namespace mugraph {
namespace kn {

template <class Starts_, long long kStep_>
struct Runs {
  using Starts = Starts_;
  static constexpr long long kStep = kStep_;

  // Whether vectors of kVector elements of a run of kCount are contiguous, and aligned if the tensor is.
  template <int kVector, long long kCount>
  static constexpr bool has_vectors() {
    return kStep == 1 && kCount % kVector == 0 &&
           Mode<typename LayoutParts<Starts>::Linear>::kModes.strides_divisible_by(kVector, 0);
  }

  // The longest vector of at most kMax elements.
  template <int kMax, long long kCount>
  static constexpr int vector_length() {
    if constexpr (kMax <= 1) {
      return 1;
    } else {
      return has_vectors<kMax, kCount>() ? kMax : vector_length<kMax / 2, kCount>();
    }
  }
};

// What neighbours make of the number before them: decay times it, plus value. The decay of a sum is 1.
template <bool kDecays>
struct Segment {
  float value;
  float decay;

  // These neighbours behind others.
  __device__ __forceinline__ Segment after(Segment const& earlier) const {
    if constexpr (kDecays) return {value + decay * earlier.value, decay * earlier.decay};
    return {value + earlier.value, 1.0f};
  }

  // That of the thread so many before this one in the warp.
  __device__ __forceinline__ Segment of_thread_before(int distance) const {
    return {__shfl_up_sync(0xffffffffu, value, distance),
            kDecays ? __shfl_up_sync(0xffffffffu, decay, distance) : 1.0f};
  }

  // That of another thread of the warp.
  __device__ __forceinline__ Segment of_thread(int thread) const {
    return {__shfl_sync(0xffffffffu, value, thread), kDecays ? __shfl_sync(0xffffffffu, decay, thread) : 1.0f};
  }
};

// All segments up to that of each of kLanes threads, kApart apart in a warp, of which this is number `lane`.
template <int kLanes, int kApart, bool kDecays>
__device__ __forceinline__ Segment<kDecays> scan_lanes(Segment<kDecays> segment, int lane) {
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const Segment<kDecays> earlier = segment.of_thread_before(distance * kApart);
    if (lane >= distance) segment = segment.after(earlier);
  }
  return segment;
}

// kHeld neighbours of a run of kCount elements as they lie in memory, or the one that they all are.
template <class Run, class T, bool kWide, int kHeld, long long kCount>
struct HeldElements {
  static constexpr int kBytes = static_cast<int>(sizeof(T));
  static constexpr int kMax = kWide ? (16 / kBytes < kHeld ? 16 / kBytes : kHeld) : 1;
  static constexpr int kVector = Run::template vector_length<kMax, kCount>();
  static constexpr bool kIsSame = Run::kStep == 0;
  static constexpr int kVectors = kIsSame ? 1 : kHeld / kVector;
  Words<T, kVector> words[kVectors];

  // Those from place `first` on; what is not there is 0.
  __device__ __forceinline__ void load(T const* run, long long first, bool is_active) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const long long place = first + i * kVector;
      words[i] = {};
      if (is_active && (kIsSame || place < kCount)) words[i].load(run + place * Run::kStep);
    }
  }

  __device__ __forceinline__ void store(T* run, long long first, bool is_active) const {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const long long place = first + i * kVector;
      if (is_active && place < kCount) words[i].store(run + place * Run::kStep);
    }
  }

  __device__ __forceinline__ void to_numbers(float (&numbers)[kHeld]) const {
#pragma unroll
    for (int i = 0; i < kHeld; i += kVector) {
      float values[kVector];
      words[kIsSame ? 0 : i / kVector].to_numbers(values);
#pragma unroll
      for (int k = 0; k < kVector; ++k) numbers[i + k] = values[k];
    }
  }

  // Of neighbours that are one element in memory the first one.
  __device__ __forceinline__ void from_numbers(float const (&numbers)[kHeld]) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      float values[kVector];
#pragma unroll
      for (int k = 0; k < kVector; ++k) values[k] = numbers[i * kVector + k];
      words[i].from_numbers(values);
    }
  }
};

// kThreads threads, of which kLanes share a run.
template <int kThreads, int kLanes, bool kIsAlong>
struct ScanBlock {
  static constexpr int kRuns = kThreads / kLanes;
  // Lanes of a run in one warp, how far they are apart there, and how many warps they are in.
  static constexpr int kApart = kIsAlong ? 1 : kRuns;
  static constexpr int kNear = kIsAlong ? (kLanes < 32 ? kLanes : 32) : (kRuns < 32 ? 32 / kRuns : 1);
  static constexpr int kFar = kLanes / kNear;
  static_assert(kNear * kFar == kLanes && kFar <= 32 && kLanes * kRuns == kThreads && kThreads % 32 == 0,
                "lanes of a run are in at most 32 warps, as many in each");

  // A segment of each warp and run in shared memory: values, and decays where there are any.
  template <bool kDecays>
  using Parts = float[kDecays ? 2 : 1][kFar][kRuns + 1];

  template <bool kDecays>
  static __device__ __forceinline__ Segment<kDecays> part(Parts<kDecays> const& parts, int far, int column) {
    if constexpr (kDecays) return {parts[0][far][column], parts[1][far][column]};
    return {parts[0][far][column], 1.0f};
  }

  template <bool kDecays>
  static __device__ __forceinline__ void set_part(Parts<kDecays>& parts, int far, int column,
                                                  Segment<kDecays> const& segment) {
    parts[0][far][column] = segment.value;
    if constexpr (kDecays) parts[1][far][column] = segment.decay;
  }

  // Puts all segments of a run up to each one in its place. All threads of the block call.
  template <bool kDecays>
  static __device__ __forceinline__ void scan_parts(Parts<kDecays>& parts) {
    constexpr int kParts = kFar * kRuns;
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();
    if (thread / 32 * 32 < kParts) {
      const bool is_part = thread < kParts;
      const int far = thread % kFar;
      const int column = is_part ? thread / kFar : 0;
      const Segment<kDecays> all = scan_lanes<kFar, 1>(part<kDecays>(parts, far, column), far);
      if (is_part) set_part<kDecays>(parts, far, column, all);
    }
    __syncthreads();
  }

  // Of what the elements of each lane make of the number before them: that of all lanes before this one, and of all.
  // All threads of the block call.
  template <bool kDecays>
  static __device__ __forceinline__ void combine(Parts<kDecays>& parts, Segment<kDecays> const& own, int lane,
                                                 int column, Segment<kDecays>& before, Segment<kDecays>& whole) {
    const int near = lane % kNear;
    const int far = lane / kNear;
    const Segment<kDecays> so_far = scan_lanes<kNear, kApart>(own, near);
    before = so_far.of_thread_before(kApart);
    if (near == 0) before = {0.0f, 1.0f};
    if constexpr (kFar == 1) {
      whole = so_far.of_thread(static_cast<int>(threadIdx.x) % 32 + (kNear - 1 - near) * kApart);
    } else {
      if (near == kNear - 1) set_part<kDecays>(parts, far, column, so_far);
      scan_parts<kDecays>(parts);
      if (far > 0) before = before.after(part<kDecays>(parts, far - 1, column));
      whole = part<kDecays>(parts, kFar - 1, column);
    }
  }
};

template <int kThreads, int kLanes, int kHeld, int kBlocksOfRun, bool kWide, bool kDecays, bool kIsAlong,
          bool kExclusive, long long kCount, class Target, class Source, class Decay, class D, class S, class A>
__global__ void __launch_bounds__(kThreads) scan_kernel(D* dst, S const* src, A const* decays) {
  tb::grid_launch();
  tb::grid_wait();
  using Block = ScanBlock<kThreads, kLanes, kIsAlong>;
  constexpr long long kRound = static_cast<long long>(kLanes) * kHeld;
  constexpr int kRounds = static_cast<int>(ceil_div(kCount, kRound * kBlocksOfRun));
  static_assert(kBlocksOfRun == 1 || !kDecays, "what is before a block's part is added up in any order");
  // Two, so that threads may write those of a round while others still read those of the one before.
  MUGRAPH_STATIC_SHARED typename Block::template Parts<kDecays> parts[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = kIsAlong ? thread % kLanes : thread / Block::kRuns;
  const int column = kIsAlong ? thread / kLanes : thread % Block::kRuns;
  const long long run = static_cast<long long>(blockIdx.x) / kBlocksOfRun * Block::kRuns + column;
  const bool is_active = run < size_of<typename Source::Starts>;
  const int start = is_active ? static_cast<int>(run) : 0;
  D* const target = dst + VectorOffsets<1, 1, typename Target::Starts>(start)(0);
  S const* const source = src + VectorOffsets<1, 1, typename Source::Starts>(start)(0);
  A const* const factor = decays + VectorOffsets<1, 1, typename Decay::Starts>(start)(0);
  long long first = static_cast<long long>(lane) * kHeld;
  HeldElements<Source, S, kWide, kHeld, kCount> elements;
  HeldElements<Decay, A, kWide, kHeld, kCount> factors;
  Segment<kDecays> before;
  Segment<kDecays> whole;
  float carried = 0.0f;
  if constexpr (kBlocksOfRun > 1) {
    const int earlier = static_cast<int>(blockIdx.x % kBlocksOfRun) * kRounds;
    float sum = 0.0f;
#pragma unroll 4
    for (int round = 0; round < earlier; ++round, first += kRound) {
      elements.load(source, first, is_active);
      float values[kHeld];
      elements.to_numbers(values);
#pragma unroll
      for (int i = 0; i < kHeld; ++i) sum += values[i];
    }
    Block::template combine<kDecays>(parts[1], {sum, 1.0f}, lane, column, before, whole);
    carried = whole.value;
  }
  elements.load(source, first, is_active);
  if constexpr (kDecays) factors.load(factor, first, is_active);
#pragma unroll 1
  for (int round = 0; round < kRounds; ++round, first += kRound) {
    float values[kHeld];
    float products[kHeld];
    elements.to_numbers(values);
    if constexpr (kDecays) factors.to_numbers(products);
    if (round + 1 < kRounds) {
      elements.load(source, first + kRound, is_active);
      if constexpr (kDecays) factors.load(factor, first + kRound, is_active);
    }
    // Nothing is before the first element.
    if (kDecays && first == 0) products[0] = 0.0f;
#pragma unroll
    for (int i = 1; i < kHeld; ++i) {
      values[i] += kDecays ? products[i] * values[i - 1] : values[i - 1];
      if constexpr (kDecays) products[i] *= products[i - 1];
    }
    const Segment<kDecays> own{values[kHeld - 1], kDecays ? products[kHeld - 1] : 1.0f};
    Block::template combine<kDecays>(parts[round % 2], own, lane, column, before, whole);
    const float number = before.after({carried, 0.0f}).value;
    carried = whole.after({carried, 0.0f}).value;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) values[i] += kDecays ? products[i] * number : number;
    if constexpr (kExclusive) {
#pragma unroll
      for (int i = kHeld - 1; i > 0; --i) values[i] = values[i - 1];
      values[0] = number;
    }
    HeldElements<Target, D, kWide, kHeld, kCount> results;
    results.from_numbers(values);
    results.store(target, first, is_active);
  }
}

// No decay: what is scanned is summed.
struct NoDecay : Runs<cute::Layout<cute::Int<1>, cute::Int<0>>, 0> {};

template <bool kExclusive, long long kCount, class Target, class Source, class Decay = NoDecay>
struct ScanOf {
  static constexpr long long kRuns = size_of<typename Source::Starts>;
  static constexpr bool kDecays = !std::is_same<Decay, NoDecay>::value;
  // Whether the elements of a run are neighbours in memory.
  static constexpr bool kIsAlong = Source::kStep == 1 && kCount > 1;
  static_assert(size_of<typename Target::Starts> == kRuns && (!kDecays || size_of<typename Decay::Starts> == kRuns),
                "all tensors must have as many runs");
  static_assert(kCount >= 1 && kCount < (1LL << 31), "the elements of a run are counted in 32 bits");

  // dst(i, t) = decays(i, t) * dst(i, t - 1) + src(i, t) for t < kCount, where dst(i, -1) is 0 and the decays of a sum
  // are 1, on `queue`; where it is exclusive, dst(i, t - 1) of that in the place of dst(i, t). Throws std::runtime_error
  // where the launch fails.
  template <class D, class S, class A = S>
  static void run(Queue queue, D* dst, S const* src, A const* decays = nullptr) {
    constexpr bool kHasVectors = Target::kStep == 1 || Source::kStep == 1 || Decay::kStep == 1;
    if (is_aligned<Target>(dst) && is_aligned<Source>(src) && is_aligned<Decay>(decays)) {
      launch_runs<kHasVectors>(queue, dst, src, decays);
    } else {
      launch_runs<false>(queue, dst, src, decays);
    }
  }

 private:
  // Blocks that share the rounds of a run, where there is room for so many; none has nothing to do.
  static constexpr int blocks_of_run(long long rounds, long long room) {
    if (room <= 1) return 1;
    return static_cast<int>(ceil_div(rounds, ceil_div(rounds, room)));
  }

  // Elements that a thread holds of a run: 32 bytes of it, but for those that have products of decays beside them.
  template <class S>
  static constexpr int held() {
    return kDecays || !kIsAlong || sizeof(S) >= 4 ? 8 : 16;
  }

  template <class Run, class T>
  static bool is_aligned(T const* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer) % (Run::kStep == 1 ? 16 : sizeof(T)) == 0;
  }

  template <bool kWide, class D, class S, class A>
  static void launch_runs(Queue queue, D* dst, S const* src, A const* decays) {
    constexpr int kHeld = held<S>();
    constexpr long long kParts = ceil_div(kCount, static_cast<long long>(kHeld));
    // Along memory a warp has a run where there are runs for all, else a block; across it, lanes that keep the GPU busy
    // are shared out so that at least 8 threads stay side by side.
    constexpr int kWarp = power_of_two_from(kParts, 32);
    constexpr int kLanes = kIsAlong ? (kRuns * kWarp >= kBusyThreads ? kWarp : power_of_two_from(kParts, 1024))
                                    : power_of_two_from(ceil_div(kBusyThreads, kRuns), power_of_two_from(kParts, 128));
    constexpr int kMost = kIsAlong ? kLanes : kLanes < 32 ? kSumThreads : 1024;
    constexpr int kThreads = kMost > kSumThreads ? kMost : kSumThreads;
    constexpr long long kBlocks = ceil_div(kRuns, static_cast<long long>(kThreads / kLanes));
    constexpr int kBlocksOfRun = kDecays ? 1 : blocks_of_run(ceil_div(kParts, static_cast<long long>(kLanes)),
                                                             kBusyThreads / (kBlocks * kThreads));
    launch("kn::Scan",
           scan_kernel<kThreads, kLanes, kHeld, kBlocksOfRun, kWide, kDecays, kIsAlong, kExclusive, kCount, Target,
                       Source, Decay, D, S, A>,
           dim3(static_cast<unsigned>(kBlocks * kBlocksOfRun)), dim3(kThreads), 0, queue, dst, src, decays);
  }
};

template <long long kCount, class Target, class Source, class Decay = NoDecay>
using Scan = ScanOf<false, kCount, Target, Source, Decay>;
template <long long kCount, class Target, class Source, class Decay = NoDecay>
using ExclusiveScan = ScanOf<true, kCount, Target, Source, Decay>;

}  // namespace kn
}  // namespace mugraph
