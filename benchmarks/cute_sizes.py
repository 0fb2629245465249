"""Kernels on CuTe tensors whose extents a call says, beside those recorded for each extent.

    python -m benchmarks.cute_sizes

Each is checked against float64 at several sizes, and timed in a CUDA graph beside the same kernel
at that size alone and PyTorch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mugraph
from benchmarks.h200.timing import interleaved, prepared
from mugraph import cute

EXAMPLES = Path(__file__).parents[1] / "examples" / "cute"
Shapes = Callable[..., list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Program:
    """An example: its tensors' type, which of M, N and K a call says, and the sizes to run."""

    example: str
    dtype: str
    shapes: Shapes
    steps: tuple[int, ...]
    """What the sizes that a call says are multiples of."""
    calls: list[tuple[int, ...]]
    peer: Callable[..., Any]

    def compiled(self, sizes: tuple[Any, ...]) -> Any:
        """The kernel for these extents, each a number or one that a call says."""
        module: Any = importlib.import_module(self.example)
        tensors = [cute.make_fake_tensor(self.dtype, shape) for shape in self.shapes(*sizes)]
        return mugraph.compile(module.launch(*tensors).trace("sm_90a"))

    def kernels(self, pool: ThreadPoolExecutor) -> dict[tuple[int, ...], Any]:
        """Those of each size, and that of all sizes at the key ``()``."""
        symbols = tuple(
            cute.sym_int(name, 8192, divisibility=step)
            for name, step in zip("mnk", self.steps, strict=False)
        )
        futures = {(): pool.submit(self.compiled, symbols)}
        futures |= {call: pool.submit(self.compiled, call) for call in self.calls}
        return {call: future.result() for call, future in futures.items()}


def _matrices(m: Any, n: Any) -> list[tuple[Any, ...]]:
    return [(m, n)] * 3


def _product(m: Any, n: Any, k: Any) -> list[tuple[Any, ...]]:
    return [(m, k), (n, k), (m, n)]


def _rows(m: Any) -> list[tuple[Any, ...]]:
    return _product(m, 4096, 4096)


def _multiplied(a: Any, b: Any) -> Any:
    return a @ b.T


PROGRAMS = [
    Program(
        "elementwise_add", "f32", _matrices, (1, 4), [(4096, 4096), (999, 1004)], lambda a, b: a + b
    ),
    Program(
        "gemm_sm80", "f16", _product, (128, 256, 64), [(4096, 4096, 4096), (512, 1024, 640)],
        _multiplied,
    ),
    Program(
        "gemm_predicated", "f16", _product, (1, 2, 8), [(1000, 1002, 1000), (3, 2, 8)], _multiplied
    ),
    Program("gemm_sm90", "f16", _rows, (1,), [(4096,), (1000,), (5,)], _multiplied),
]  # fmt: skip


def _run(program: Program, kernels: dict[tuple[int, ...], Any]) -> None:
    import torch

    dtype = {"f16": torch.float16, "f32": torch.float32}[program.dtype]
    for call in program.calls:
        *given, shape = program.shapes(*call)
        inputs = [torch.randn(one, device="cuda", dtype=dtype) for one in given]
        exact = program.peer(*(one.double() for one in inputs))
        # What results are allocated from holds NaN.
        poison = torch.full((2 * exact.numel() + 1,), float("nan"), device="cuda", dtype=dtype)
        del poison
        found = kernels[()](*inputs)
        assert tuple(found.shape) == tuple(shape)
        error = ((found.double() - exact).norm() / exact.norm()).item()
        systems: dict[str, Callable[..., Any]] = {
            "of all sizes": kernels[()],
            "of this size": kernels[call],
            "torch": program.peer,
        }
        graphs = [
            prepared(lambda _set, own=own, one=inputs: own(*one), 1) for own in systems.values()
        ]
        samples = interleaved(graphs, lambda _: None)
        text = ", ".join(
            f"{name} {values.median:.1f} us" for name, values in zip(systems, samples, strict=True)
        )
        print(f"{program.example} {call}: error {error:.1e}, {text}", flush=True)
        if not error < 2e-3:
            sys.exit(f"{program.example} {call} is wrong")


def main() -> None:
    """Runs all programs."""
    sys.path.append(str(EXAMPLES))
    with ThreadPoolExecutor(16) as pool:
        compiled = [(one, one.kernels(pool)) for one in PROGRAMS]
    for program, kernels in compiled:
        _run(program, kernels)


if __name__ == "__main__":
    main()
