// What the C function of a program calls whose devices read one another's memory. Host only, but for the meeting.
//
// The memory of each member begins with a 32-bit flag a member (meet.h); the member's own count of meetings is behind
// them. -DMUGRAPH_MEETING_SECONDS=20 ends a device with an error that waits longer for another, after a sentence on
// which; without it a device waits for ever.
#pragma once

#include "c_interface.h"
#include "meet.h"

#ifndef MUGRAPH_MEETING_SECONDS
#define MUGRAPH_MEETING_SECONDS 0
#endif

namespace mugraph {
namespace c_interface {

struct Peers {
  char const* name;
  void* const* memory;
  int devices;
  int place;

  char* of(int member, std::size_t start) const { return static_cast<char*>(memory[member]) + start; }

  char* own(std::size_t start) const { return of(place, start); }

  // Whether a call can go on with these; a status code of the generated header.
  int check() const {
    if (memory == nullptr) {
      return fail(MUGRAPH_NULL_POINTER, "%s is NULL; pass the addresses of the memory of %d devices.", name, devices);
    }
    if (place < 0 || place >= devices) {
      return fail(MUGRAPH_INVALID_PLACE, "this device is at place %d of %s; expected 0 to %d.", place, name,
                  devices - 1);
    }
    for (int member = 0; member < devices; ++member) {
      if (int const code = check_pointer(name, memory[member], 256); code != 0) return code;
    }
    return MUGRAPH_SUCCESS;
  }

  void meet(cudaStream_t stream, int number) const {
    unsigned* flags[kMostMembers];
    for (int member = 0; member < devices; ++member) flags[member] = reinterpret_cast<unsigned*>(of(member, 0));
    constexpr auto kLimit = static_cast<unsigned long long>(MUGRAPH_MEETING_SECONDS * 1e9);
    mugraph::meet(overlapping(stream), flags, devices, place, flags[place] + devices, kLimit, number);
  }
};

inline void copy(cudaStream_t stream, void* target, void const* source, std::size_t bytes) {
  check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream), "copying a tensor");
}

// Copies `bytes` from `start` of each of `rows`, which are `pitch` bytes apart, one behind the other.
inline void copy_part(cudaStream_t stream, void* target, void const* source, std::size_t rows, std::size_t pitch,
                      std::size_t start, std::size_t bytes) {
  check(cudaMemcpy2DAsync(target, bytes, static_cast<char const*>(source) + start, pitch, bytes, rows,
                          cudaMemcpyDeviceToDevice, stream),
        "copying a part of a tensor");
}

}  // namespace c_interface
}  // namespace mugraph
