"""Runs a kernel on numpy: the blocks one after another, all threads of a block together.

Threads go from line to line together, so that what barriers and asynchronous copies order is in
order anyway: a missing one shows in the check for hazards, not here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from mugraph.cute.async_recorder import AsyncRecorder
from mugraph.cute.mbarriers import RunsRecordedError
from mugraph.cute.numbers import dtype_named
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.engines import ArrayEngine, Engine, Lanes, RegisterEngine
from mugraph.dialects.cute.numpy_machine import NumpyMachine
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.programming_model import WARP
from mugraph.runtime.interpreter.texpr.instructions import shuffled


class SimtMachine(NumpyMachine):
    """One block, whose threads are the lanes of arrays."""

    lanes: Lanes

    def __init__(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], number: int
    ) -> None:
        super().__init__(Lanes(prod(block)))
        self.thread = np.arange(prod(block))
        self.block = number
        self.block_dim = block
        self.grid_dim = grid

    def registers(self, elements: int, dtype: Any) -> Engine:
        """New registers of each thread, which hold nothing: NaN, or the least integer."""
        assert self.lanes is not None
        return RegisterEngine(_undefined((self.lanes.count, elements), dtype), self.lanes)

    def shared(
        self, dtype: Any, layout: Layout[int] | ComposedLayout, name: str, alignment: int
    ) -> Tensor:
        """A new tensor in shared memory, which holds nothing."""
        return Tensor(ArrayEngine(_undefined((layout.cosize(),), dtype), self.lanes), layout)

    def shuffle(self, kind: str, value: Any, offset: Any, clamp: int) -> Any:
        """What each thread gets of another one of its warp."""
        assert self.lanes is not None
        values, distances = (
            np.broadcast_to(one, self.lanes.count).reshape(-1, WARP, 1) for one in (value, offset)
        )
        return shuffled(kind, values, distances, clamp).reshape(-1)

    def barrier(self) -> None:
        """Nothing to do."""

    def commit(self) -> None:
        """Nothing to do."""

    def wait(self, groups: int) -> None:
        """Nothing to do."""

    @contextmanager
    def when(self, condition: Any) -> Generator[None]:
        """Lets threads write only where the condition holds for them."""
        assert self.lanes is not None
        before = self.lanes.active
        self.lanes.active = before & condition
        try:
            yield
        finally:
            self.lanes.active = before

    def iterate(self, extent: int, name: str) -> Iterator[Any]:
        """The numbers in order."""
        yield from range(extent)

    def __getattr__(self, name: str) -> Any:
        # Here no thread waits for another one.
        if name in _ASYNCHRONOUS:
            raise RunsRecordedError
        raise AttributeError(name)


_ASYNCHRONOUS = frozenset(name for name in vars(AsyncRecorder) if not name.startswith("_"))
"""What a machine that has no asynchrony is not asked."""


def _undefined(shape: tuple[int, ...], dtype: Any) -> Any:
    found = dtype_named(dtype)
    if found.kind == "i":
        return np.full(shape, np.iinfo(found).min, found)
    return np.full(shape, np.nan, found)
