// mbarriers and bulk copies of tensors (TMA), named barriers, and what else warps of different roles need (sm_90 on).
//
// A box of a tensor in device memory moves to shared memory, or back, by one instruction of one thread. Coordinates
// count elements, the contiguous dimension first; a tensor map (mugraph/tensor_map.h) says the rest.
//
// The emulator of the tests has functions of the same names and defines MUGRAPH_EMULATED_BULK_COPY.
// Source: PTX ISA, "mbarrier", "cp.async.bulk.tensor", "Tensors".
#pragma once

#include <cuda.h>

#include <cstdint>

#if !defined(MUGRAPH_EMULATED_BULK_COPY)
namespace mugraph {

__device__ __forceinline__ uint32_t shared_address(void const* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// One thread of a warp that is converged here.
__device__ __forceinline__ bool elect_one() {
  uint32_t is_elected;
  asm volatile(
      "{\n.reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n}\n"
      : "=r"(is_elected));
  return is_elected != 0;
}

__device__ __forceinline__ void mbarrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Its bytes may be used for something else, another mbarrier too.
__device__ __forceinline__ void mbarrier_invalidate(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];\n" ::"r"(shared_address(barrier)) : "memory");
}

// By the thread that has set up mbarriers: bulk copies see them.
__device__ __forceinline__ void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces bytes without which the phase does not end.
__device__ __forceinline__ void mbarrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

// Waits until the phase of that parity has ended; a new mbarrier is in a phase of parity 0. The hardware suspends the
// thread for a while at each try.
__device__ __forceinline__ void mbarrier_wait(uint64_t* barrier, uint32_t parity) {
  uint32_t has_ended;
  do {
    asm volatile(
        "{\n.reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n}\n"
        : "=r"(has_ended)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  } while (has_ended == 0);
}

// What the calling thread has read and written in shared memory so far comes before what bulk copies do with it that
// are issued after a barrier that follows. Loads may else be on their way still when their place is overwritten: an
// arrival at an mbarrier overtakes them.
__device__ __forceinline__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

// Waits for `threads` threads, whole warps, that name the same barrier, 1 to 15.
__device__ __forceinline__ void named_barrier(uint32_t number, uint32_t threads) {
  asm volatile("barrier.sync %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}

// Each thread of a warp group goes on with kRegisters, fewer than it has or more. All its warps call; those that take
// wait until others of the block have left enough.
template <int kRegisters>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

__device__ __forceinline__ void prefetch_tensor_map(CUtensorMap const* map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(map) : "memory");
}

#define MUGRAPH_BULK_LOAD(rank, ...)                                                                                  \
  asm volatile("cp.async.bulk.tensor." #rank                                                                          \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" __VA_ARGS__ "}], [%2];\n" :: \
                   "r"(shared_address(target)),                                                                       \
               "l"(map), "r"(shared_address(barrier))

// The box that starts at these coordinates comes to `target`, a multiple of 128 bytes, and then counts its bytes down
// from what the barrier's phase waits for.
__device__ __forceinline__ void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, int c0) {
  MUGRAPH_BULK_LOAD(1, "%3"), "r"(c0) : "memory");
}
__device__ __forceinline__ void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1) {
  MUGRAPH_BULK_LOAD(2, "%3, %4"), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                          int c2) {
  MUGRAPH_BULK_LOAD(3, "%3, %4, %5"), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                          int c2, int c3) {
  MUGRAPH_BULK_LOAD(4, "%3, %4, %5, %6"), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void bulk_load(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                          int c2, int c3, int c4) {
  MUGRAPH_BULK_LOAD(5, "%3, %4, %5, %6, %7"), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
#undef MUGRAPH_BULK_LOAD

// A cluster: blocks that reach each other's shared memory. The number of this block in it.
__device__ __forceinline__ uint32_t cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

// Where block `rank` of the cluster has what this block has at a place of its shared memory.
template <class T>
__device__ __forceinline__ T* in_block(T* place, int rank) {
  T* found;
  asm("mapa.u64 %0, %1, %2;" : "=l"(found) : "l"(place), "r"(rank));
  return found;
}

// Waits for all threads of the cluster. Of what came before, others see mbarriers whose set-up has been fenced; a barrier
// that released all else, too, would be a fence of all memory.
__device__ __forceinline__ void cluster_start() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;\n" ::: "memory");
}

// The same in two steps, between which threads do something else.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;\n" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;\n" ::: "memory"); }

// Gives a number of this block to the others of its cluster, which have it at the same place. A cluster barrier follows.
template <int kBlocks, class T>
__device__ __forceinline__ void give_to_cluster(T* place) {
  if (threadIdx.x < kBlocks) *in_block(place, threadIdx.x) = *place;
}

// Waits for all threads of the cluster that have not ended; warps need not be together.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;\n" ::: "memory");
}

// Arrives at the mbarrier that another block of the cluster has at the same place. Its scope is the block: what the
// thread has read is read, and it hands over nothing that it has written. Released to the cluster, each arrival is a
// fence of all memory (MEMBAR.ALL.GPU in machine code), which takes longer than a stage's products.
__device__ __forceinline__ void mbarrier_arrive_at(uint64_t* barrier, uint32_t rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.release.cta.shared::cluster.b64 _, [remote];\n}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}

#define MUGRAPH_BULK_MULTICAST(rank, ...)                                                                       \
  asm volatile("cp.async.bulk.tensor." #rank                                                                    \
               "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {" \
               __VA_ARGS__ "}], [%2], %3;\n" ::"r"(shared_address(target)),                                     \
               "l"(map), "r"(shared_address(barrier)), "h"(static_cast<uint16_t>((1 << kBlocks) - 1))

// A box that comes to the same place in all kBlocks blocks of the cluster, and counts at the mbarrier of each.
template <int kBlocks>
__device__ __forceinline__ void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, int c0) {
  MUGRAPH_BULK_MULTICAST(1, "%4"), "r"(c0) : "memory");
}
template <int kBlocks>
__device__ __forceinline__ void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, int c0,
                                               int c1) {
  MUGRAPH_BULK_MULTICAST(2, "%4, %5"), "r"(c0), "r"(c1) : "memory");
}
template <int kBlocks>
__device__ __forceinline__ void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                               int c2) {
  MUGRAPH_BULK_MULTICAST(3, "%4, %5, %6"), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
template <int kBlocks>
__device__ __forceinline__ void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                               int c2, int c3) {
  MUGRAPH_BULK_MULTICAST(4, "%4, %5, %6, %7"), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
template <int kBlocks>
__device__ __forceinline__ void bulk_multicast(void* target, CUtensorMap const* map, uint64_t* barrier, int c0, int c1,
                                               int c2, int c3, int c4) {
  MUGRAPH_BULK_MULTICAST(5, "%4, %5, %6, %7, %8"), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
#undef MUGRAPH_BULK_MULTICAST

#define MUGRAPH_BULK_STORE(rank, ...)                                                                 \
  asm volatile("cp.async.bulk.tensor." #rank                                                          \
               "d.global.shared::cta.tile.bulk_group [%0, {" __VA_ARGS__ "}], [%1];\n" ::"l"(map), \
               "r"(shared_address(source))

// What lies at `source`, a multiple of 128 bytes, goes to the box that starts at these coordinates. Other threads have
// called proxy_fence() and come to a barrier since they wrote it.
__device__ __forceinline__ void bulk_store(CUtensorMap const* map, void const* source, int c0) {
  MUGRAPH_BULK_STORE(1, "%2"), "r"(c0) : "memory");
}
__device__ __forceinline__ void bulk_store(CUtensorMap const* map, void const* source, int c0, int c1) {
  MUGRAPH_BULK_STORE(2, "%2, %3"), "r"(c0), "r"(c1) : "memory");
}
__device__ __forceinline__ void bulk_store(CUtensorMap const* map, void const* source, int c0, int c1, int c2) {
  MUGRAPH_BULK_STORE(3, "%2, %3, %4"), "r"(c0), "r"(c1), "r"(c2) : "memory");
}
__device__ __forceinline__ void bulk_store(CUtensorMap const* map, void const* source, int c0, int c1, int c2,
                                           int c3) {
  MUGRAPH_BULK_STORE(4, "%2, %3, %4, %5"), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}
__device__ __forceinline__ void bulk_store(CUtensorMap const* map, void const* source, int c0, int c1, int c2, int c3,
                                           int c4) {
  MUGRAPH_BULK_STORE(5, "%2, %3, %4, %5, %6"), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}
#undef MUGRAPH_BULK_STORE

// The bulk stores that the calling thread has begun since the last call are one group.
__device__ __forceinline__ void commit_bulk_stores() { asm volatile("cp.async.bulk.commit_group;\n" ::: "memory"); }

// Waits until all but the newest kInFlight groups of the calling thread have read what they store.
template <int kInFlight>
__device__ __forceinline__ void wait_bulk_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kInFlight) : "memory");
}

// The same of all that the thread has begun.
__device__ __forceinline__ void wait_bulk_stores() {
  commit_bulk_stores();
  wait_bulk_stores<0>();
}

// Waits until all that the thread has stored in bulk is written, and no longer only read.
__device__ __forceinline__ void complete_bulk_stores() {
  commit_bulk_stores();
  asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

}  // namespace mugraph
#endif
