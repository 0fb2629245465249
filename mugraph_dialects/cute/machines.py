"""Who executes what is done with tensors: numpy, or what records a kernel."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from mugraph.dialects.cute.engines import ArrayEngine, Engine, Lanes, RegisterEngine


class Machine(Protocol):
    """What has registers."""

    def registers(self, elements: int, dtype: Any) -> Engine:
        """New registers of the thread, or of each thread of the block."""
        ...


class NumpyRegisters:
    """Registers that are numpy arrays: of one thread, or of all threads of a block."""

    def __init__(self, lanes: Lanes | None = None):
        self.lanes = lanes

    def registers(self, elements: int, dtype: Any) -> Engine:
        """New registers of zeros."""
        import numpy

        if self.lanes is None:
            return ArrayEngine(numpy.zeros(elements, dtype))
        return RegisterEngine(numpy.zeros((self.lanes.count, elements), dtype), self.lanes)


_CURRENT: ContextVar[Machine | None] = ContextVar("machine", default=None)


def current_machine() -> Machine | None:
    """The machine that executes now; ``None`` for numpy and one thread."""
    return _CURRENT.get()


@contextmanager
def running_on(machine: Machine) -> Generator[None]:
    """Lets a machine execute what is done with tensors in the block."""
    token = _CURRENT.set(machine)
    try:
        yield
    finally:
        _CURRENT.reset(token)
