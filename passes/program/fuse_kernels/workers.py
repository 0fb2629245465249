"""Several processes that try kernels at once, where a search of a whole model needs many.

They are copies of the process as it is when a search begins, so that they find of a group what it
would find itself.  They touch no device.
"""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

MOST_WORKERS = 8
"""Processes at once: a search asks for fewer kernels before it goes on."""


def usual_count() -> int:
    """How many processes a search may start: one for two processors, none where there are few."""
    if not hasattr(os, "fork") or not hasattr(os, "sched_getaffinity"):
        return 0
    count = len(os.sched_getaffinity(0)) // 2
    return min(count, MOST_WORKERS) if count > 1 else 0


class Workers(Generic[Task, Result]):
    """Copies of this process that compute a function of what is sent to them.

    Tasks and results are pickled.  A process that fails is left out.
    """

    def __init__(self, function: Callable[[Task], Result], count: int) -> None:
        self._pipes: list[Connection] = []
        self._processes: list[int] = []
        for _ in range(count):
            self._start(function)

    def __enter__(self) -> Workers[Task, Result]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            os.waitpid(process, 0)

    def __bool__(self) -> bool:
        return bool(self._pipes)

    def _start(self, function: Callable[[Task], Result]) -> None:
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            # Other threads do not run in the copy, which uses nothing of theirs.
            warnings.simplefilter("ignore", DeprecationWarning)
            process = os.fork()
        if process:
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
            return
        try:
            gc.freeze()  # memory stays shared
            for pipe in (ours, *self._pipes):
                pipe.close()
            while True:
                theirs.send(function(theirs.recv()))
        finally:
            os._exit(0)

    def results(self, tasks: Sequence[Task]) -> list[Result | None]:
        """What the function gives for each task; ``None`` where a process failed."""
        found: list[Result | None] = [None] * len(tasks)
        waiting, busy = list(range(len(tasks)))[::-1], dict[Connection, int]()
        while busy or (waiting and self._pipes):
            for pipe in [pipe for pipe in self._pipes if pipe not in busy][: len(waiting)]:
                busy[pipe] = waiting.pop()
                with suppress(OSError):  # which shows when its result is read
                    pipe.send(tasks[busy[pipe]])
            ready = wait([*busy])
            for pipe in [pipe for pipe in busy if pipe in ready]:
                place = busy.pop(pipe)
                try:
                    found[place] = pipe.recv()
                except (EOFError, OSError):
                    self._pipes.remove(pipe)
        return found
