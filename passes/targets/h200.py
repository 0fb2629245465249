"""NVIDIA H200 SXM, 141 GB: the default for ``sm_90a``.

Sources: the H200 data sheet (memory bandwidth), NVIDIA's "H100 Tensor Core GPU Architecture"
(multiprocessors, L2, clock, dense tensor-core rates of ``wgmma``), and the tables of the CUDA
programming guide for compute capability 9.0 (shared memory, threads, blocks, multiply-adds, special
functions).  What bulk copies keep on their way: ``benchmarks/results/h200_stages.md``; plans with
other numbers of ``stages`` are timed by ``python -m benchmarks.h200 run --try FILE``.

NVIDIA gives no rate of ``mma.sync``.  Alone, without loads, it reached 646 TFLOP/s in f16
(``docs/texpr.md``; no script is kept), 1236 multiply-adds a cycle at the highest clock; of other
types the rates of the A100 serve, of f8, which it multiplies as f16, that of f16.  No script
measures the latencies of memory under load and of a product: they are estimates.
"""

from __future__ import annotations

from mugraph.passes.targets.target import FMA, MMA, WGMMA, Target

TARGET = Target(
    name="h200",
    arch="sm_90a",
    multiprocessors=132,
    clock_ghz=1.98,
    memory_bytes_per_ns=4800.0,
    memory_latency_ns=900.0,
    l2_bytes=50 * 2**20,
    shared_memory_per_block=227 * 1024,
    shared_memory_per_multiprocessor=228 * 1024,
    reserved_shared_memory_per_block=1024,
    max_threads_per_multiprocessor=2048,
    max_blocks_per_multiprocessor=32,
    macs_a_cycle={
        FMA: {"f32": 128, "s32": 64},
        MMA: {
            "f16": 1236,
            "bf16": 1236,
            "tf32": 512,
            "e4m3": 1236,
            "e5m2": 1236,
            "s8": 2048,
        },
        WGMMA: {"f16": 2048, "bf16": 2048, "tf32": 1024, "e4m3": 4096, "e5m2": 4096, "s8": 4096},
    },
    mma_latency=33,
    special_a_cycle=16,
    schedulers_per_multiprocessor=4,
    bulk_bytes_in_flight=64 * 1024,
    moves_registers=True,
    has_programmatic_launch=True,
    blocks_per_cluster=8,
)
