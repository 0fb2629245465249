"""What torch compiles for the peers, made ahead of time by several processes.

torch keeps what it has compiled in a folder, so that the measuring process finds it there.  Only
what is not tuned is made ahead: tuning measures, and beside other processes it chooses worse (seen:
max-autotune's time of lora was 9.7 instead of 7.9 us).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from benchmarks.h200.building import tensors_of
from benchmarks.h200.peers import Level, Peer, peers_of
from benchmarks.h200.workloads import WORKLOADS, Workload

PROCESSES = 8
TUNED = "max-autotune"
"""How the modes of ``torch.compile`` begin that measure."""


def warm_up(workloads: Sequence[Workload], level: Level) -> None:
    """Compiles the peers of all workloads; what fails here fails again where it is measured."""
    in_processes(partial(_compile, level), [workload.name for workload in workloads])


def in_processes(compile_each: Callable[[Sequence[str]], None], names: Sequence[str]) -> None:
    """Calls a function of names in several processes, each with a part of them."""
    parts = [names[start::PROCESSES] for start in range(min(PROCESSES, len(names)))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(len(parts), 1), context) as pool:
        for future in [pool.submit(compile_each, part) for part in parts]:
            future.exception()


def _compile(level: Level, names: Sequence[str]) -> None:
    from benchmarks.h200.measure import random_inputs

    for name in names:
        workload = WORKLOADS[name]
        inputs = random_inputs(tensors_of(workload)[:-1], workload.scales)
        compile_peers(peers_of(workload, level), inputs)


def compile_peers(peers: Sequence[Peer], inputs: Sequence[Any]) -> None:
    """Compiles the peers that torch compiles without tuning, by a call with inputs."""
    import torch

    for peer in peers:
        if peer.compiled is None or peer.compiled.startswith(TUNED):
            continue
        torch.compiler.reset()
        try:
            with torch.inference_mode():
                given = inputs if peer.prepare is None else peer.prepare(inputs)
                peer.ready()(*given)
                torch.cuda.synchronize()
        except Exception:  # said by the process that measures
            continue
    torch.cuda.empty_cache()
