"""The process that owns the GPU, and the one that watches it.

A kernel may hang, or leave CUDA in an error that nothing but a new process gets rid of.  So one
process measures and says what it is about to do; the other, which never opens the GPU, ends it when
a step takes too long or the process dies, blames the step, and starts another for the rest.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.commands import sentence
from benchmarks.h200.jobs import PEER_SECONDS, Job, Step
from benchmarks.h200.records import Record, System

Say = Callable[[str], None]
Measure = Callable[[Job, Callable[[Step], None]], Record]
"""Measures a job in the process that it is called in, and says each step first."""


def measure(job: Job, begin: Callable[[Step], None]) -> Record:
    """Measures one workload; raises where the GPU cannot be used any more."""
    # Only the process that measures loads what that takes.
    from benchmarks.h200.measure import measure as measure_workload

    return measure_workload(job, begin)


def _serve(connection: Connection, function: Measure) -> None:
    """The measuring process: takes jobs until there are none."""
    while True:
        job: Job | None = connection.recv()
        if job is None:
            return
        try:
            connection.send(function(job, connection.send))
        except Exception as error:  # said by the process that watches
            connection.send(sentence(error))
            connection.close()
            # Without the interpreter's end, which would wait for a broken GPU.
            os._exit(1)


class Watched:
    """A measuring process that is replaced when it fails."""

    def __init__(self, say: Say, function: Measure = measure) -> None:
        self._say = say
        self._function = function
        self._process: Any = None
        self._connection: Connection | None = None

    def start(self) -> None:
        """Starts a process, if there is none."""
        if self._process is not None:
            return
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, self._function), daemon=True)
        self._process.start()
        other.close()

    def run(self, job: Job) -> Record:
        """The record of a job; what breaks the process is in it with the reason, and no time."""
        failed = dict(job.failed)
        while True:
            self.start()
            outcome = self._attempt(replace(job, failed=failed))
            if isinstance(outcome, Record):
                return outcome
            step, reason = outcome
            self.end()
            self._say(f"{job.workload.name} {step}: {reason}")
            known = {build.task.variant.name for build in job.builds}
            known |= {peer.name for peer in job.peers}
            if step not in known or step in failed:
                record = Record(job.workload.name, job.facts, 0, 0.0)
                for name in known:
                    record.add(failed.get(name, System(name, f"not measured: {step}: {reason}")))
                return record
            failed[step] = System(step, f"breaks the process: {reason}")

    def _attempt(self, job: Job) -> Record | tuple[str, str]:
        """The record, or the step that failed and how."""
        assert self._connection is not None
        step = Step("the start", PEER_SECONDS)
        try:
            self._connection.send(job)
            while True:
                if not self._connection.poll(step.seconds):
                    return step.system, f"nothing happened for {step.seconds:.0f} s"
                message = self._connection.recv()
                if isinstance(message, Record):
                    return message
                if isinstance(message, str):
                    return step.system, message
                step = message
        except (EOFError, OSError):
            return step.system, "the process died"

    def end(self) -> None:
        """Ends the process."""
        if self._process is None:
            return
        start = time.perf_counter()
        self._process.kill()
        self._process.join(30.0)
        waited = time.perf_counter() - start
        if waited > 5.0:
            self._say(f"the measuring process took {waited:.0f} s to end")
        if self._connection is not None:
            self._connection.close()
        self._process, self._connection = None, None
