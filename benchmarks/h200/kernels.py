"""Our kernels on torch's tensors: calls, guards, repeated runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from benchmarks.h200.building import Build
from benchmarks.h200.checking import RIGHT, RUNS, Verdict, judge, judge_each
from benchmarks.h200.device import DEVICE
from benchmarks.h200.timing import Call
from mugraph.jit import CudaKernel

GUARD = 256
POISON = 0xFF
"""The byte that makes NaN of every floating-point number."""
ALIGNMENT = 16
"""Bytes of which each result starts at a multiple."""


class Guarded:
    """A poisoned tensor between two guards that no kernel may change."""

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        import torch

        size = dtype.itemsize
        for extent in shape:
            size *= extent
        self._bytes = torch.full((size + 2 * GUARD,), POISON, dtype=torch.uint8, device=DEVICE)
        self.tensor = self._bytes[GUARD : GUARD + size].view(dtype).view(*shape)

    def poison(self) -> None:
        """Fills it again."""
        self._bytes.fill_(POISON)

    @property
    def guards_hold(self) -> bool:
        """Whether both guards are as they were."""
        ends = (self._bytes[:GUARD], self._bytes[-GUARD:])
        return all(bool((end == POISON).all()) for end in ends)


class Ours:
    """One compiled workload; its results lie one after another in one tensor."""

    def __init__(self, build: Build) -> None:
        import torch

        assert build.library is not None and build.interface is not None
        self.build = build
        self._kernel = CudaKernel(build.library, build.interface, build.task.arch)
        self._workspace = Guarded((max(1, build.interface.workspace_bytes),), torch.uint8)
        self._outputs: list[Any] = []
        self._result: Any = None

    def check(
        self, inputs: Sequence[Any], expected: Any, dtype: Any, tolerance: float | None = None
    ) -> Verdict:
        """Runs :data:`RUNS` times on poisoned memory and judges the results, together and each.

        ``expected`` has the elements of all results, one result behind the other, in any shape.
        ``tolerance`` stands in for the one of the µGraph's types.  The first inputs that are
        checked are those of :meth:`call`.
        """
        import torch

        expected = expected.flatten()
        output = Guarded((self._room(dtype),), dtype)
        copies = [tensor.clone() for tensor in inputs]
        first: Any = None
        differing: list[int] = []
        for run in range(RUNS):
            output.poison()
            self._workspace.poison()
            self.launch(inputs, output.tensor)
            torch.cuda.synchronize()
            bits = output.tensor.view(torch.uint8)
            if first is None:
                first = output.tensor.clone()
                self._result = first if self._result is None else self._result
            elif not torch.equal(bits, first.view(torch.uint8)):
                differing.append(run + 1)
        allowed = self.build.tolerance if tolerance is None else tolerance
        results = self.cut(first)
        together = torch.cat([each.flatten() for each in results])
        verdict = judge(torch, together, expected, allowed, differing)
        if not (output.guards_hold and self._workspace.guards_hold):
            return Verdict("wrong: writes outside of its tensors", verdict.relative_error)
        if not all(map(torch.equal, inputs, copies)):
            return Verdict("wrong: changes its inputs", verdict.relative_error)
        if not verdict.right:
            return verdict
        return judge_each(torch, results, self.cut(expected, alignment=1), allowed)

    def _shapes(self) -> list[tuple[int, ...]]:
        assert self.build.interface is not None
        return [output.shape for output in self.build.interface.outputs]

    def _room(self, dtype: Any) -> int:
        """How many elements the results have with what lies between them."""
        return self._starts(ALIGNMENT // dtype.itemsize)[-1]

    def _starts(self, alignment: int) -> list[int]:
        """Where each result starts, at multiples of so many elements, and the last one ends."""
        sizes = (-(-math.prod(shape) // alignment) * alignment for shape in self._shapes())
        return [*accumulate(sizes, initial=0)]

    def cut(self, whole: Any, alignment: int | None = None) -> list[Any]:
        """The results that lie in a tensor, each at a multiple of so many elements.

        By default that is :data:`ALIGNMENT`.
        """
        step: int = alignment or ALIGNMENT // whole.dtype.itemsize
        places = zip(self._starts(step), self._shapes(), strict=False)
        return [whole[start : start + math.prod(shape)].reshape(shape) for start, shape in places]

    def launch(self, inputs: Sequence[Any], output: Any) -> None:
        """Enqueues one call on torch's current stream."""
        import torch

        pointers = [tensor.data_ptr() for tensor in (*inputs, *self.cut(output))]
        stream = torch.cuda.current_stream().cuda_stream
        self._kernel.launch(pointers, self._workspace.tensor.data_ptr(), stream)

    def call(self, sets: Sequence[Sequence[Any]], dtype: Any) -> Call:
        """Calls on the tensors of each set, with an output of each of a type."""
        import torch

        room = self._room(dtype)
        self._outputs = [torch.empty(room, dtype=dtype, device=DEVICE) for _ in sets]

        def run(index: int) -> Any:
            self.launch(sets[index], self._outputs[index])
            return self._outputs[index]

        return run

    def check_calls(self, replay: Callable[[], None]) -> Verdict:
        """Whether calls that follow each other at once give the bits that single calls gave.

        ``replay`` runs the CUDA graph of :meth:`call` once; kernels in it may overlap.
        """
        import torch

        for output in self._outputs:
            output.view(torch.uint8).fill_(POISON)
        torch.cuda.synchronize()
        replay()
        torch.cuda.synchronize()
        bits = self._result.view(torch.uint8)
        wrong = sum(not torch.equal(output.view(torch.uint8), bits) for output in self._outputs)
        if wrong:
            return Verdict(f"wrong: {wrong} of {len(self._outputs)} calls in a CUDA graph differ")
        return Verdict(RIGHT)
