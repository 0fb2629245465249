// Self-test of mugraph::meet and mugraph::gather: counts, flags, ranges, and streams of one GPU that meet as devices do.
//
// The emulator runs one kernel after the other, so that only members that have all arrived can meet there; on a GPU
// streams stand for devices, which read what others laid out while some of them are late.
#include "gather.h"
#include "harness.h"
#include "meet.h"

using namespace harness;

struct Members {
  unsigned* flags[mugraph::kMostMembers] = {};
  unsigned* met = nullptr;
  int count;

  explicit Members(int count_) : count(count_) {
    for (int member = 0; member < count; ++member) flags[member] = zeros();
    met = zeros();
  }

  unsigned* zeros() const {
    const std::vector<unsigned> none(count);
    unsigned* made = nullptr;
    mugraph::check(cudaMalloc(&made, count * sizeof(unsigned)), "allocating");
    mugraph::check(cudaMemcpy(made, none.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice), "clearing");
    return made;
  }

  unsigned flag(int at, int member) const {
    unsigned value = 0;
    mugraph::check(cudaMemcpy(&value, flags[at] + member, sizeof(value), cudaMemcpyDeviceToHost), "reading");
    return value;
  }

  void set_flag(int at, int member, unsigned value) {
    mugraph::check(cudaMemcpy(flags[at] + member, &value, sizeof(value), cudaMemcpyHostToDevice), "writing");
  }
};

// The member at place 1 of three meets others that have been there.
void test_counts() {
  Members members(3);
  const auto meet_at = [&](unsigned before, unsigned first, unsigned last) {
    mugraph::check(cudaMemcpy(members.met + 1, &before, sizeof(before), cudaMemcpyHostToDevice), "writing");
    members.set_flag(1, 0, first);
    members.set_flag(1, 2, last);
    mugraph::meet(mugraph::overlapping(cudaStream_t{}), members.flags, 3, 1, members.met + 1);
    mugraph::check(cudaDeviceSynchronize(), "meeting");
    unsigned after = 0;
    mugraph::check(cudaMemcpy(&after, members.met + 1, sizeof(after), cudaMemcpyDeviceToHost), "reading");
    const bool told = members.flag(0, 1) == before + 1 && members.flag(2, 1) == before + 1;
    const bool others_kept = members.flag(0, 0) == 0 && members.flag(0, 2) == 0 && members.flag(1, 1) == 0;
    report(after == before + 1, "meet", "a device did not count its meeting");
    report(told, "meet", "a device did not tell the others");
    report(others_kept && members.flag(1, 0) == first && members.flag(1, 2) == last, "meet",
           "a device wrote a flag of another one");
  };
  meet_at(0, 1, 1);
  // A member that is ahead, and counts that have wrapped around.
  meet_at(1, 3, 2);
  meet_at(0x7fffffffu, 0x80000000u, 0x80000001u);
  meet_at(0xffffffffu, 0, 1);
}

// The member at place 1 of three copies ranges of others, which have been there, and its own, call after call.
void test_gathers() {
  Members members(3);
  for (unsigned call = 1; call <= 3; ++call) {
    const int sizes[] = {16, 16 * 700, 16 * 5000};
    std::vector<void*> addresses;
    std::vector<unsigned long long> bytes;
    for (int size : sizes) {
      std::vector<unsigned> numbers(size / 4 + 1, call), untouched(size / 4 + 1, 77u);
      for (int i = 0; i < size / 4; ++i) numbers[i] += 3 * i + size;
      for (std::vector<unsigned> const* held : {&untouched, &numbers}) {
        void* made = nullptr;
        mugraph::check(cudaMalloc(&made, size + 4), "allocating");
        mugraph::check(cudaMemcpy(made, held->data(), size + 4, cudaMemcpyHostToDevice), "writing");
        addresses.push_back(made);
      }
      bytes.push_back(size);
    }
    for (int other : {0, 2}) members.set_flag(1, other, call);
    const mugraph::Member own = mugraph::member_of(members.flags, 3, 1, members.met, 0, 0);
    mugraph::gather(mugraph::overlapping(cudaStream_t{}), own, addresses.data(), bytes.data(), 2, 1, 4);
    mugraph::check(cudaDeviceSynchronize(), "gathering");
    for (int range = 0; range < 3; ++range) {
      const int count = sizes[range] / 4;
      std::vector<unsigned> found(count + 1);
      mugraph::check(cudaMemcpy(found.data(), addresses[2 * range], 4 * (count + 1), cudaMemcpyDeviceToHost), "reading");
      bool is_right = found[count] == 77u;
      for (int i = 0; i < count; ++i) is_right &= found[i] == call + 3 * i + sizes[range];
      report(is_right, "gather", "a range was not copied, or more than it");
    }
    unsigned met[2] = {};
    mugraph::check(cudaMemcpy(met, members.met, sizeof(met), cudaMemcpyDeviceToHost), "reading");
    report(met[0] == call && met[1] == 0, "gather", "a device did not count its meeting");
    report(members.flag(0, 1) == call && members.flag(2, 1) == call, "gather", "a device did not tell the others");
  }
}

void test_refusals() {
  Members members(1);
  std::string message;
  try {
    mugraph::meet(cudaStream_t{}, members.flags, 40, 0, members.met);
  } catch (std::runtime_error const& error) {
    message = error.what();
  }
  report(message.find("a meeting of 40 devices") != std::string::npos, "meet", "too many members were not refused");
}

#if defined(__CUDACC__)
__global__ void lay_out(unsigned* target, int count, unsigned value, long long delay) {
  mugraph::tb::grid_launch();
  mugraph::tb::grid_wait();
  const long long start = clock64();
  while (clock64() - start < delay) {
  }
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) target[i] = value + i;
}

struct Buffers {
  unsigned const* of[mugraph::kMostMembers];
};

__global__ void count_wrong(Buffers buffers, int members, int count, unsigned value, unsigned* wrong) {
  mugraph::tb::grid_launch();
  mugraph::tb::grid_wait();
  for (int member = 0; member < members; ++member) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
      if (buffers.of[member][i] != value + i) atomicAdd(wrong, 1u);
    }
  }
}

// Each stream lays a buffer out again and again, and reads those of all: a meeting before, and one behind.
void test_streams(int count) {
  constexpr int kElements = 4096, kRounds = 300;
  Members members(count);
  Buffers buffers{};
  std::vector<unsigned*> own(count);
  std::vector<cudaStream_t> streams(count);
  unsigned* wrong = nullptr;
  mugraph::check(cudaMalloc(&wrong, sizeof(unsigned)), "allocating");
  mugraph::check(cudaMemset(wrong, 0, sizeof(unsigned)), "clearing");
  for (int member = 0; member < count; ++member) {
    mugraph::check(cudaMalloc(&own[member], kElements * sizeof(unsigned)), "allocating");
    buffers.of[member] = own[member];
    mugraph::check(cudaStreamCreateWithFlags(&streams[member], cudaStreamNonBlocking), "making a stream");
  }
  Random random(count);
  constexpr unsigned long long kLimit = 10ull * 1000 * 1000 * 1000;
  for (int round = 0; round < kRounds; ++round) {
    for (int member = 0; member < count; ++member) {
      const mugraph::Queue queue = mugraph::overlapping(streams[member]);
      const long long delay = static_cast<long long>(10000 * (random.next() + 1));
      const unsigned value = 7919u * round;
      mugraph::meet(queue, members.flags, count, member, members.met + member, kLimit);
      mugraph::launch("lay_out", lay_out, dim3(1), dim3(128), 0, queue, own[member], kElements, value, delay);
      mugraph::meet(queue, members.flags, count, member, members.met + member, kLimit);
      mugraph::launch("count_wrong", count_wrong, dim3(1), dim3(128), 0, queue, buffers, count, kElements, value, wrong);
    }
  }
  mugraph::check(cudaDeviceSynchronize(), "meeting on streams");
  unsigned found = 1;
  mugraph::check(cudaMemcpy(&found, wrong, sizeof(found), cudaMemcpyDeviceToHost), "reading");
  report(found == 0, "streams", "a stream read what another one had not laid out yet, or had replaced");
}
#endif

int main() {
  test_counts();
  test_gathers();
  test_refusals();
#if defined(__CUDACC__)
  for (int count : {2, 3, 4}) test_streams(count);
#endif
  return finish("meet_test");
}
