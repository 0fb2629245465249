"""NVIDIA A100 SXM, 80 GB.

Sources: the A100 data sheet (memory bandwidth), NVIDIA's "A100 Tensor Core GPU Architecture"
(multiprocessors, L2, clock, dense tensor-core rates), and the tables of the CUDA programming guide
for compute capability 8.0 (shared memory, threads, blocks, multiply-adds, special functions).  No
script measures the latencies of memory and of a product here: they are estimates.
"""

from __future__ import annotations

from mugraph.passes.targets.target import FMA, MMA, Target

TARGET = Target(
    name="a100",
    arch="sm_80",
    multiprocessors=108,
    clock_ghz=1.41,
    memory_bytes_per_ns=2039.0,
    memory_latency_ns=700.0,
    l2_bytes=40 * 2**20,
    shared_memory_per_block=163 * 1024,
    shared_memory_per_multiprocessor=164 * 1024,
    reserved_shared_memory_per_block=1024,
    max_threads_per_multiprocessor=2048,
    max_blocks_per_multiprocessor=32,
    macs_a_cycle={
        FMA: {"f32": 64, "s32": 64},
        MMA: {"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048},
    },
    mma_latency=33,
    special_a_cycle=16,
    schedulers_per_multiprocessor=4,
)
