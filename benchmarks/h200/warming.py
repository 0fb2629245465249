"""What torch compiles for the peers, made ahead of time by several processes.

torch keeps what it has compiled in a folder, so that the measuring process finds it there.  Of what
is tuned only the kernels to choose from are kept: which is fastest is measured where nothing else
runs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext

from benchmarks.h200.building import tensors_of
from benchmarks.h200.peers import Level, peers_of
from benchmarks.h200.workloads import WORKLOADS, Workload

PROCESSES = 8
FOR_TUNED = {"compile_threads": 2, "fx_graph_cache": False, "autotune_local_cache": False}
"""Options of torch's compiler for what is tuned: few threads, and no choice is kept."""
MOST_FLOP = 2 * 10**11
"""What is larger takes longer to tune than to compile."""
TUNED = "max-autotune"
"""How the modes of ``torch.compile`` begin that measure."""


def warm_up(workloads: Sequence[Workload], level: Level) -> None:
    """Compiles the peers of all workloads; what fails here fails again where it is measured."""
    names = [workload.name for workload in workloads]
    parts = [names[start::PROCESSES] for start in range(min(PROCESSES, len(names)))]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(len(parts), 1), context) as pool:
        for future in [pool.submit(_compile, part, level) for part in parts]:
            future.exception()


def _compile(names: Sequence[str], level: Level) -> None:
    import torch
    import torch._inductor.config as config

    from benchmarks.h200.measure import random_inputs

    for name in names:
        workload = WORKLOADS[name]
        inputs = random_inputs(tensors_of(workload)[:-1], workload.scales)
        for peer in peers_of(workload, level):
            tuned = peer.compiled is not None and peer.compiled.startswith(TUNED)
            if peer.compiled is None or (tuned and workload.flop > MOST_FLOP):
                continue
            torch.compiler.reset()
            # What is not tuned is compiled under the usual options: they are part of what it is
            # found by.
            options = config.patch(FOR_TUNED) if tuned else nullcontext()
            try:
                with torch.inference_mode(), options:
                    given = inputs if peer.prepare is None else peer.prepare(inputs)
                    peer.ready()(*given)
                    torch.cuda.synchronize()
            except Exception:  # said by the process that measures
                continue
        del inputs
        torch.cuda.empty_cache()
