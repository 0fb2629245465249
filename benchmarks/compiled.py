"""Kernels compiled in processes of their own, for benchmarks that need many."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import mugraph
from mugraph.build import KernelGraph
from mugraph.codegen.c_abi import CInterface
from mugraph.dialects.plan import Plan
from mugraph.jit.cuda import CudaKernel


@dataclass(frozen=True)
class Built:
    """A compiled library, and how it is called."""

    library: Path
    interface: CInterface
    arch: str

    def kernel(self) -> CudaKernel:
        """The kernel, loaded into this process."""
        return CudaKernel(self.library, self.interface, self.arch)


Submit = Callable[[KernelGraph, Plan | None], Future[Built]]
"""Compiles a graph, perhaps under a plan, in another process."""


def _compiled(text: str, arch: str, plan: Plan | None) -> Built:
    kernel = mugraph.compile(text, arch, plan=plan)
    assert isinstance(kernel, CudaKernel)
    return Built(kernel.library_path, kernel.interface, kernel.arch)


@contextmanager
def processes(arch: str) -> Generator[Submit]:
    """As many processes as there are processors, which compile what is submitted in its order."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:

        def submit(graph: KernelGraph, plan: Plan | None = None) -> Future[Built]:
            return pool.submit(_compiled, str(graph), arch, plan)

        try:
            yield submit
        finally:
            pool.shutdown(cancel_futures=True)
