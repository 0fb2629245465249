"""NVIDIA B200.

Sources: the B200 data sheet (memory bandwidth, clock) and the tables of the CUDA programming guide
for compute capability 10.0 (shared memory, threads, blocks, multiply-adds, special functions).
Nothing was measured on a B200: latencies are those of the H200, and rates of ``mma.sync`` those of
the A100, of f8 that of f16.  Its ``tcgen05`` products are not compiled yet.
"""

from __future__ import annotations

from mugraph.passes.targets.target import FMA, MMA, Target

TARGET = Target(
    name="b200",
    arch="sm_100a",
    multiprocessors=148,
    clock_ghz=1.965,
    memory_bytes_per_ns=8000.0,
    memory_latency_ns=900.0,
    l2_bytes=126 * 2**20,
    shared_memory_per_block=227 * 1024,
    shared_memory_per_multiprocessor=228 * 1024,
    reserved_shared_memory_per_block=1024,
    max_threads_per_multiprocessor=2048,
    max_blocks_per_multiprocessor=32,
    macs_a_cycle={
        FMA: {"f32": 128, "s32": 64},
        MMA: {
            "f16": 1024,
            "bf16": 1024,
            "tf32": 512,
            "e4m3": 1024,
            "e5m2": 1024,
            "s8": 2048,
        },
    },
    mma_latency=33,
    special_a_cycle=16,
    schedulers_per_multiprocessor=4,
    bulk_bytes_in_flight=96 * 1024,
    moves_registers=True,
    has_programmatic_launch=True,
    blocks_per_cluster=8,
)
