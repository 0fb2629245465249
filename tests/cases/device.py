"""Runs built cases on a GPU (or emulated), in one process for all of them.

A fault of one case leaves the process's context unusable, and an emulated one ends the process:
that case fails, and a new process goes on with the next.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from cases.build import Built, inputs_and_budgets
from cases.catalogue import all_cases
from cases.check import judge
from mugraph.runtime.execute import CudaModule, DeviceError
from mugraph.tools.diagnostics import describe_error

SECONDS_A_CASE = 120.0
"""After which a case is taken to hang."""


@dataclass(frozen=True)
class Outcome:
    """How a case fared."""

    id: str
    error: str = ""
    """What is wrong; empty where nothing is."""
    share: float = 0.0
    """The largest error of an element, in parts of its budget."""
    relative_error: float = 0.0
    """The largest error of an element, relative to the largest magnitude of its result."""
    seconds: float = 0.0
    is_fatal: bool = False
    """Whether nothing more can run in the same process."""


def load(built: Built) -> CudaModule:
    """The case, of those of its library, ready to run."""
    assert built.library is not None and built.signature is not None
    return CudaModule(built.library, built.signature, member=built.number)


def run_case(built: Built, folder: Path) -> Outcome:
    """Runs a case twice on poisoned outputs; every element must be within its budget."""
    start = time.perf_counter()
    case = next(case for case in all_cases() if case.id == built.id)
    try:
        inputs, expected, budgets = inputs_and_budgets(case, built, folder)
        module = load(built)
        inputs = [
            array.view(spec.dtype)
            for array, spec in zip(inputs, module.signature.inputs, strict=True)
        ]
        first, second = module.run(inputs), module.run(inputs)
        verdict = judge(first, expected, budgets)
        message = verdict.message
        if not message and any(
            not np.array_equal(one.view(np.uint8), other.view(np.uint8))
            for one, other in zip(first, second, strict=True)
        ):
            message = "two runs gave different bits"
        took = time.perf_counter() - start
        return Outcome(built.id, message, verdict.share, verdict.relative_error, took)
    except DeviceError as error:
        # What the guards found leaves the context as it was; a CUDA error may not.
        fatal = "generated code" not in str(error)
        return Outcome(built.id, str(error), seconds=time.perf_counter() - start, is_fatal=fatal)
    except Exception as error:
        return Outcome(built.id, describe_error(error), seconds=time.perf_counter() - start)


def launch_case(built: Built, folder: Path) -> None:
    """Runs a case and looks at nothing: for checkers that watch the process."""
    case = next(case for case in all_cases() if case.id == built.id)
    inputs, _, _ = inputs_and_budgets(case, built, folder)
    module = load(built)
    module.launch(
        [
            array.view(spec.dtype)
            for array, spec in zip(inputs, module.signature.inputs, strict=True)
        ]
    )


def _serve(built: Sequence[Built], folder: Path, connection: Connection) -> None:
    for one in built:
        outcome = run_case(one, folder)
        connection.send(outcome)
        if outcome.is_fatal:
            return


def run_all(built: Sequence[Built], folder: Path) -> Iterator[Outcome]:
    """The outcome of each case, in order; those that were not built fail with that message."""
    waiting = [one for one in built if not one.error]
    outcomes = _run_in_processes(waiting, folder)
    for one in built:
        yield Outcome(one.id, f"not built: {one.error}") if one.error else next(outcomes)


def _run_in_processes(waiting: list[Built], folder: Path) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    while waiting:
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=_serve, args=(waiting, folder, sending))
        process.start()
        sending.close()
        is_alive = True
        while waiting and is_alive:
            one = waiting.pop(0)
            outcome = _receive(receiving, one.id)
            is_alive = not outcome.is_fatal
            yield outcome
        process.terminate()
        process.join()


def _receive(connection: Connection, id_: str) -> Outcome:
    if not connection.poll(SECONDS_A_CASE):
        return Outcome(id_, f"did not end in {SECONDS_A_CASE:.0f} s", is_fatal=True)
    try:
        outcome = connection.recv()
        assert isinstance(outcome, Outcome) and outcome.id == id_
        return outcome
    except EOFError:
        return Outcome(id_, "the process that ran it ended", is_fatal=True)
