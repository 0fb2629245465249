"""The practical floor: a tuned kernel that only reads as many bytes as a workload touches."""

from __future__ import annotations

import ctypes
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.h200.device import DEVICE
from benchmarks.h200.programs import compile_source
from benchmarks.h200.statistics import call_count
from benchmarks.h200.timing import Call, capture, sample
from mugraph.errors import UserError

SOURCE = Path(__file__).with_name("read_kernel.cu")
SHAPES = range(6)
BLOCKS = (66, 132, 264, 528, 1056, 2112)


def compile_read_kernel(arch: str) -> Path:
    """The shared library of ``read_kernel.cu``; ``UserError`` with nvcc's words if it fails."""
    folder = Path(tempfile.mkdtemp(prefix="mugraph-read-"))
    options = ["-O3", "-shared", "-Xcompiler", "-fPIC"]
    return compile_source(SOURCE, arch, folder / "read.so", options)


@cache
def _library(path: Path) -> Any:
    library = ctypes.CDLL(str(path))
    pointer = ctypes.c_void_p
    library.mugraph_read.argtypes = [
        pointer, ctypes.c_size_t, pointer, ctypes.c_int, ctypes.c_int, pointer,
    ]  # fmt: skip
    return library


class Reader:
    """A buffer of as many parts as there are sets, and calls that read one part each."""

    def __init__(self, library: Path, total_bytes: int, sets: int) -> None:
        import torch

        self._library = _library(library)
        self._size = -(-total_bytes // 256) * 256
        self._buffer = torch.zeros(self._size * sets, dtype=torch.uint8, device=DEVICE)
        self._word = torch.zeros(1, dtype=torch.int32, device=DEVICE)

    def call(self, shape: int, blocks: int) -> Call:
        """Calls of one kernel on so many blocks."""
        import torch

        def run(index: int) -> Any:
            stream = torch.cuda.current_stream().cuda_stream
            start = self._buffer.data_ptr() + index * self._size
            word = self._word.data_ptr()
            code = self._library.mugraph_read(start, self._size, word, shape, blocks, stream)
            if code != 0:
                raise UserError(f"the reading kernel fails with CUDA error {code}.")
            return self._buffer

        return run


def tuned_read_call(library: Path, total_bytes: int, sets: int) -> tuple[Call, str]:
    """The fastest of the shapes and grids, and which it is."""
    reader = Reader(library, total_bytes, sets)
    best: tuple[float, Call, str] | None = None
    for shape in SHAPES:
        for blocks in BLOCKS:
            call = reader.call(shape, blocks)
            graph = capture(call, sets, call_count(sets))
            sample(graph)
            time = min(sample(graph) for _ in range(3))
            if best is None or time < best[0]:
                threads, unroll = 128 << shape // 2, 4 << shape % 2
                best = (time, call, f"{blocks} blocks of {threads}, {unroll} vectors a thread")
    assert best is not None
    return best[1], best[2]
