"""Who executes what is done with tensors: numpy, or what records a kernel."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from mugraph.dialects.cute.engines import Engine


class Machine(Protocol):
    """What has registers."""

    def registers(self, elements: int, dtype: Any) -> Engine:
        """New registers of each thread."""
        ...


_CURRENT: ContextVar[Machine | None] = ContextVar("machine", default=None)


def current_machine() -> Machine | None:
    """The machine that executes now; ``None`` for numpy."""
    return _CURRENT.get()


@contextmanager
def running_on(machine: Machine) -> Generator[None]:
    """Lets a machine execute what is done with tensors in the block."""
    token = _CURRENT.set(machine)
    try:
        yield
    finally:
        _CURRENT.reset(token)
