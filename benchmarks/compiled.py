"""Kernels compiled in processes of their own, for benchmarks that need many."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

from benchmarks.cases import Built, compiled
from mugraph.build import KernelGraph
from mugraph.dialects.plan import Plan

Submit = Callable[[KernelGraph, Plan | None], Future[Built]]
"""Compiles a graph, perhaps under a plan, in another process."""


@contextmanager
def processes(arch: str) -> Generator[Submit]:
    """As many processes as there are processors, which compile what is submitted in its order."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:

        def submit(graph: KernelGraph, plan: Plan | None = None) -> Future[Built]:
            return pool.submit(compiled, str(graph), arch, plan)

        try:
            yield submit
        finally:
            pool.shutdown(cancel_futures=True)
