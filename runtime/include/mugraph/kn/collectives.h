// Collectives of several devices by NCCL, on whole tensors that lie without gaps. Host only.
//
// The caller makes the communicators, and starts every function on each of their devices in the same order. Tensors of
// members stand one after the other in the order of their ranks: their part of a whole one is a range of elements.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#if __has_include(<nccl.h>)
#include <nccl.h>
#else
// What is used of NCCL's interface, which has been so since its version 2.10.
extern "C" {
typedef struct ncclComm* ncclComm_t;
typedef enum { ncclSuccess = 0 } ncclResult_t;
typedef enum { ncclSum = 0, ncclMax = 2 } ncclRedOp_t;
typedef enum { ncclInt8 = 0, ncclFloat16 = 6, ncclFloat32 = 7, ncclBfloat16 = 9 } ncclDataType_t;
char const* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclCommCount(ncclComm_t const comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank);
ncclResult_t ncclAllReduce(void const* sent, void* received, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(void const* sent, void* received, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(void const* sent, void* received, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSend(void const* sent, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* received, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
}
#endif

#include "../arch/cute.h"

namespace mugraph {
namespace kn {

inline void check(ncclResult_t status, char const* what) {
  if (status == ncclSuccess) return;
  throw std::runtime_error(std::string("mugraph: ") + what + " failed: " + ncclGetErrorString(status) + ".");
}

// How NCCL adds up elements, or takes the largest.
template <class T>
struct NcclType;
template <>
struct NcclType<cutlass::half_t> {
  static constexpr ncclDataType_t value = ncclFloat16;
};
template <>
struct NcclType<cutlass::bfloat16_t> {
  static constexpr ncclDataType_t value = ncclBfloat16;
};
template <>
struct NcclType<float> {
  static constexpr ncclDataType_t value = ncclFloat32;
};

// The devices of a group as the caller has joined them, and this one's place.
struct Communicator {
  ncclComm_t comm;
  int devices;
  int place;

  // Throws std::runtime_error where the communicator has another number of devices than the program is for.
  Communicator(void const* given, int devices_)
      : comm(static_cast<ncclComm_t>(const_cast<void*>(given))), devices(devices_), place(0) {
    int count = 0;
    check(ncclCommCount(comm, &count), "asking for the devices of a communicator");
    if (count != devices) {
      throw std::runtime_error("mugraph: a communicator has " + std::to_string(count) +
                               " devices, but the program was partitioned for " + std::to_string(devices) + ".");
    }
    check(ncclCommUserRank(comm, &place), "asking for the place in a communicator");
  }
};

// Each function enqueues on `stream`, and throws std::runtime_error where NCCL refuses. `count` is of elements that
// a device gives, or of those of one part.

template <class T>
void all_reduce(cudaStream_t stream, Communicator const& group, ncclRedOp_t op, T* target, T const* source,
                std::size_t count) {
  check(ncclAllReduce(source, target, count, NcclType<T>::value, op, group.comm, stream), "ncclAllReduce");
}

template <class T>
void reduce_scatter(cudaStream_t stream, Communicator const& group, ncclRedOp_t op, T* target, T const* source,
                    std::size_t count) {
  check(ncclReduceScatter(source, target, count, NcclType<T>::value, op, group.comm, stream), "ncclReduceScatter");
}

template <class T>
void all_gather(cudaStream_t stream, Communicator const& group, T* target, T const* source, std::size_t count) {
  check(ncclAllGather(source, target, count * sizeof(T), ncclInt8, group.comm, stream), "ncclAllGather");
}

template <class T>
void all_to_all(cudaStream_t stream, Communicator const& group, T* target, T const* source, std::size_t count) {
  const std::size_t bytes = count * sizeof(T);
  check(ncclGroupStart(), "ncclGroupStart");
  for (int other = 0; other < group.devices; ++other) {
    check(ncclSend(source + other * count, bytes, ncclInt8, other, group.comm, stream), "ncclSend");
    check(ncclRecv(target + other * count, bytes, ncclInt8, other, group.comm, stream), "ncclRecv");
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

}  // namespace kn
}  // namespace mugraph
