"""Many iterations of a tensor expression at once: their variables, values and buffers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects.te.points import Rows, evaluate_with
from mugraph.runtime.interpreter.arithmetic import Array


@dataclass(frozen=True)
class Storage:
    """The contents of a buffer, one row for each time that it was made."""

    elements: Array
    """``[copies, elements]`` in row-major order of the coordinates."""
    written: npt.NDArray[np.bool_]
    """Which elements have contents."""
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Places:
    """The elements of a buffer that iterations touch, equally many each."""

    storage: Storage
    rows: Rows
    """Which copy of the buffer, ``[iterations, 1]``."""
    numbers: Rows
    """``[iterations, elements]``."""

    def first_unwritten(self) -> tuple[int, int] | None:
        """An iteration that touches an element without contents, and its number."""
        missing = ~self.storage.written[self.rows, self.numbers]
        if not missing.any():
            return None
        iteration, place = np.unravel_index(int(np.argmax(missing)), missing.shape)
        return int(iteration), int(self.numbers[iteration, place])

    def read(self) -> Array:
        """What the elements hold, ``[iterations, elements]``."""
        return self.storage.elements[self.rows, self.numbers]

    def write(self, values: Array) -> None:
        """Gives the elements contents."""
        self.storage.elements[self.rows, self.numbers] = values
        self.storage.written[self.rows, self.numbers] = True


@dataclass
class Batch:
    """``count`` iterations that run together.

    Each has a row of numbers, for every value, and belongs to one iteration of ``parent``.
    """

    count: int
    parent: Batch | None = None
    parents: Rows | None = None
    """The iteration of the parent that each belongs to; ``None`` where they are the same."""
    lanes: int | None = None
    """In a fully parallel loop its extent: as many neighbours run together."""
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    buffers: dict[SSAValue, tuple[Storage, Rows]] = field(
        default_factory=dict[SSAValue, tuple[Storage, Rows]]
    )

    def value(self, value: SSAValue) -> Array:
        """The number that each iteration has for a value."""
        known = self.values.get(value)
        if known is None:
            if self.parent is None:
                raise KeyError(value)
            known = self._chosen(self.parent.value(value))
            self.values[value] = known
        return known

    def buffer(self, value: SSAValue) -> tuple[Storage, Rows]:
        """A buffer, and which of its copies each iteration has."""
        known = self.buffers.get(value)
        if known is None:
            if self.parent is None:
                raise KeyError(value)
            storage, rows = self.parent.buffer(value)
            known = storage, self._chosen(rows)
            self.buffers[value] = known
        return known

    def _chosen(self, values: Array) -> Array:
        return values if self.parents is None else values[self.parents]

    def index(self, expression: AffineExpr, operands: list[SSAValue]) -> Rows:
        """An index expression in each iteration."""
        rows = evaluate_with(expression, operands, self.value)
        return rows if rows.ndim else np.full(self.count, rows)
