"""Whether programs whose sizes or rows stand in memory are right on a GPU, from 0 to the largest.

    PYTHONPATH=tests python -m sizes                   # a line a case; 1 where one is wrong
    PYTHONPATH=tests python -m sizes --only paged      # programs whose names have a word

Results are compared with numpy's in float64.  Every tensor lies between guards, which must stay as
they are; operands are NaN behind the end that memory holds, and results are NaN before a call, so
that what was not written shows.  Results behind an end must stay as they were.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import mugraph
from sizes.programs import PROGRAMS, Array, Program

GUARD = 1024
"""Bytes in front of a tensor and behind it."""
POISON = 0xFF
"""Every byte of guards and of results before a call: NaN in every floating-point type, or -1."""
TOLERANCE = 4e-3
"""The largest norm of an error by the norm of the result: a few roundings of f16."""


@dataclass
class Guarded:
    """A tensor between guards."""

    storage: Any
    tensor: Any

    @classmethod
    def of(cls, array: Array, device: str) -> Guarded:
        """An array's numbers on a device."""
        import torch

        size = array.nbytes
        storage = torch.full((size + 2 * GUARD,), POISON, dtype=torch.uint8, device=device)
        tensor = storage[GUARD : GUARD + size].view(torch.from_numpy(array).dtype)
        tensor = tensor.view(array.shape)
        tensor.copy_(torch.from_numpy(array))
        return cls(storage, tensor)

    @classmethod
    def poisoned(cls, shape: Sequence[int], dtype: npt.DTypeLike, device: str) -> Guarded:
        """A tensor of nothing but poison."""
        found = cls.of(np.zeros(shape, dtype), device)
        found.storage.fill_(POISON)
        return found

    def bytes(self) -> Array:
        """The tensor's bytes, [elements, bytes of one]."""
        own = self.storage[GUARD : len(self.storage) - GUARD].cpu().numpy()
        return own.reshape(-1, self.tensor.element_size())

    def guards_are_whole(self) -> bool:
        """Whether nothing was written outside of the tensor."""
        edges = self.storage[:GUARD], self.storage[len(self.storage) - GUARD :]
        return all(bool((edge == POISON).all()) for edge in edges)


def faults(result: Guarded, expected: Any) -> tuple[float, list[str]]:
    """The error of a result, and what is wrong with it; masked elements must be poison still."""
    found = [] if result.guards_are_whole() else ["something was written outside of it"]
    values = np.asarray(np.ma.getdata(expected), np.float64)
    kept = np.broadcast_to(np.ma.getmaskarray(expected), values.shape).reshape(-1)
    poisoned = (result.bytes() == POISON).all(axis=1)
    ours = result.tensor.double().cpu().numpy().reshape(-1)
    wanted = values.reshape(-1)
    left = poisoned & ~kept & np.isfinite(wanted) & (ours != wanted)
    if left.any():
        found.append(f"{int(left.sum())} elements were not written")
    if (touched := kept & ~poisoned).any():
        found.append(f"{int(touched.sum())} elements behind the end were written")
    ours, wanted = ours[~kept], wanted[~kept]
    if (np.isnan(ours) != np.isnan(wanted)).any():
        found.append("it is NaN where the reference is not, or the other way round")
    finite = np.isfinite(wanted)
    norm = float(np.linalg.norm(wanted[finite])) or 1.0
    error = float(np.linalg.norm((ours - wanted)[finite])) / norm
    if not error <= TOLERANCE:
        found.append(f"it is off by {error:.1e} of its norm")
    return error, found


def check(program: Program, kernel: Any, size: int, device: str) -> tuple[float, list[str]]:
    """Runs a program at a size; the largest error, and what is wrong."""
    import torch

    random = np.random.default_rng([size, *program.name.encode()])
    inputs = program.inputs(size, random)
    expected = program.expected(size, *inputs)
    given = [Guarded.of(array, device) for array in inputs]
    results: list[Guarded] = []
    for index, (values, dtype) in enumerate(zip(expected, program.types, strict=True)):
        place = program.in_place.get(index)
        shape = np.shape(values)
        results.append(Guarded.poisoned(shape, dtype, device) if place is None else given[place])
    before = [each.storage.clone() for each in given]
    kernel(*(each.tensor for each in given), out=[each.tensor for each in results])
    if device != "cpu":
        torch.cuda.synchronize()
    wrong = [
        f"input {index} was changed"
        for index, (each, old) in enumerate(zip(given, before, strict=True))
        if index not in program.in_place.values() and not torch.equal(each.storage, old)
    ]
    error = 0.0
    for index, (result, values) in enumerate(zip(results, expected, strict=True)):
        if device == "cpu":  # the interpreter gives whole arrays
            values = np.ma.array(np.ma.getdata(values))
            mask = np.ma.getmaskarray(expected[index])
            values[mask] = result.tensor.double().numpy()[mask]
        own, sentences = faults(result, values)
        error = max(error, own)
        wrong += [f"result {index}: {sentence}" for sentence in sentences]
    return error, wrong


def run(programs: Sequence[Program], arch: str, jobs: int) -> Iterator[tuple[str, bool]]:
    """A line for each program and size, and whether it was right; programs compile together."""
    device = "cpu" if arch == "cpu" else "cuda"
    with ThreadPoolExecutor(jobs) as pool:
        kernels = [
            pool.submit(mugraph.compile, each.graph(), arch, plan=each.plan) for each in programs
        ]
        for program, compiled in zip(programs, kernels, strict=True):
            try:
                kernel = compiled.result()
            except Exception as error:  # one program that fails must not hide the others
                yield f"FAIL {program.name}: {str(error).splitlines()[0]}", False
                continue
            for size in program.sizes:
                try:
                    error, wrong = check(program, kernel, size, device)
                except Exception as failure:
                    error, wrong = 0.0, [str(failure).splitlines()[0]]
                name = f"{program.name} at {size}"
                line = f"FAIL {name}: {'; '.join(wrong)}" if wrong else f"ok   {name} ({error:.1e})"
                yield line, not wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m sizes", description=__doc__)
    parser.add_argument(
        "--arch", default="sm_90a", help="what to compile for, or cpu, which refuses some numbers"
    )
    parser.add_argument("--only", default="", help="a word in the names of programs")
    parser.add_argument("--jobs", type=int, default=16, help="programs that compile together")
    arguments = parser.parse_args()
    start, wrong = time.monotonic(), 0
    chosen = [each for each in PROGRAMS if arguments.only in each.name]
    for line, right in run(chosen, arguments.arch, arguments.jobs):
        print(line, flush=True)
        wrong += not right
    print(f"{wrong} wrong; {time.monotonic() - start:.0f} s")
    return int(wrong > 0)
