"""Indirect tiles: numbers in memory say which rows of a tensor they have.

A row is what a tensor has at a place of its first dimension: a page of a cache, an expert, the
embedding of a token.  A tensor of numbers stands for as many rows, one behind the other in its own
extents: the *gathered* tensor, which ``kn.gather`` would write.  Tiles are cut from the gathered
tensor, whose elements are read from where the rows are.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Container, Mapping, Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.definition import OperatorError
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.dialects.windows import ModesAttr, Windows, verify_windows


class ReadsRows(Operation, Abstract):
    """An operator of which an operand's numbers may name rows."""

    @abstractmethod
    def rows_named(self, operand: int) -> int | None:
        """How many rows there are for the numbers of an operand; ``None`` where it names none."""

    def tensors_moved(self) -> Sequence[SSAValue]:
        """The tensors of which it reads or writes all; of the others only some rows."""
        return (*self.operands, *self.results)


class TakesDistinctNumbers(Operation, Abstract):
    """An operator of which no two numbers of an operand may be the same."""

    @abstractmethod
    def takes_distinct(self, operand: int) -> bool:
        """Whether it is so of an operand."""


class MakesDistinctNumbers(Operation, Abstract):
    """An operator that makes lists of which no two numbers are the same."""

    @abstractmethod
    def distinct_lists(self) -> Mapping[SSAValue, int]:
        """Those of its results that are such lists; for each, what all of its numbers are below."""


class NamesRows(Operation, Abstract):
    """An operator that moves tiles, perhaps of rows that numbers name.

    The dimensions of such a tile are those of the numbers, and then those of a row.
    """

    @property
    @abstractmethod
    def numbers(self) -> SSAValue | None:
        """The numbers that name its rows; ``None`` where none do."""

    @property
    def numbers_shape(self) -> tuple[int, ...]:
        """The extents of the numbers that name its rows; none where none do."""
        return () if self.numbers is None else shape_of(self.numbers.type)

    def named_shape(self, tensor: Attribute) -> tuple[int, ...]:
        """The extents of a tensor, or of its rows, one for each number."""
        shape = shape_of(tensor)
        return shape if self.numbers is None else gathered_shape(shape, self.numbers_shape)

    def verify_numbers(self, tensor: Attribute) -> None:
        """Raises ``VerifyException`` unless the numbers can say which rows of a tensor are meant.

        They are i32 in device memory.
        """
        if (numbers := self.numbers) is None:
            return
        if isinstance(numbers.owner, Operation):
            raise VerifyException(
                f"{op_label(self)} moves rows through {value_label(numbers)}, a tile; numbers of "
                "rows are read from device memory, so name an operand of the kernel"
            )
        number = element_type_of(numbers.type)
        if number != i32:
            raise VerifyException(
                f"{op_label(self)}: the numbers of rows that it moves 'through' "
                f"{value_label(numbers)} are of {number}; expected i32: insert a 'kn.cast' before "
                "the kernel"
            )
        if not shape_of(tensor):
            raise VerifyException(
                f"{op_label(self)}: a tensor of no dimensions, {tensor}, has no rows that "
                f"{value_label(numbers)} could name; leave out 'through'"
            )

    def verify_even_numbers(self, bounds: Bounds, whole: Container[int] = ()) -> None:
        """Raises ``OperatorError`` where some tiles have fewer numbers of rows than others.

        ``bounds`` say which elements of the tiles exist; along dimensions that are ``whole`` all do
        of every block that is launched.
        """
        for dim, bound in enumerate(bounds[: len(self.numbers_shape)]):
            if bound is not None and self.numbers is not None and dim not in whole:
                raise OperatorError(
                    f"dimension {dim} of the tile counts rows that {value_label(self.numbers)} "
                    "names, and some blocks or iterations have fewer; choose a grid and a forloop "
                    "that divide its extents"
                )


class CutsRows(IRDLOperation, ReadsRows, NamesRows):
    """An operator that cuts tiles from its first operand, or from what is gathered or seen of it.

    The numbers of the rows, where there are any, are its second operand.
    """

    modes = opt_prop_def(ModesAttr)
    origin = opt_prop_def(DenseArrayBase.constr(i64))

    def see(self, windows: Windows | None) -> None:
        """Says what it cuts of its first operand."""
        self.modes, self.origin = (None, None) if windows is None else windows.attributes()

    @property
    def windows(self) -> Windows | None:
        """What it cuts of its first operand where that are windows; ``None`` for itself."""
        if self.modes is None or self.origin is None:
            return None
        return Windows.of(self.modes, self.origin)

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """The extents of what the maps cut: the first operand, or what is gathered of it."""
        windows = self.windows
        return self.named_shape(self.operands[0].type) if windows is None else windows.shape

    def rows_named(self, operand: int) -> int | None:
        """The first operand's rows, of the numbers."""
        named = self.numbers is not None and operand == 1
        return shape_of(self.operands[0].type)[0] if named else None

    def verify_windows(self) -> None:
        """Raises ``VerifyException`` for windows that do not fit the operand."""
        modes, origin = self.modes, self.origin
        if modes is None and origin is None:
            return
        if modes is None or origin is None:
            raise VerifyException(f"{op_label(self)}: 'modes' and 'origin' stand together")
        if self.numbers is not None:
            raise VerifyException(
                f"{op_label(self)} reads windows of rows that {value_label(self.numbers)} names; "
                "gather them by 'kn.gather' before"
            )
        verify_windows(self, self.operands[0], modes, origin)


class ReadsLengths(Operation, Abstract):
    """An operator of which operands may hold lengths."""

    @abstractmethod
    def largest_length(self, operand: int) -> int | None:
        """What the length that an operand holds is at most; ``None`` where it holds none."""


class LaunchesKernel(Operation, Abstract):
    """An operator whose operands are arguments of a body that stands elsewhere or in it."""

    @abstractmethod
    def argument_of(self, operand: int) -> SSAValue:
        """The argument that an operand becomes."""


def gathered_shape(source: Sequence[int], numbers: Sequence[int]) -> tuple[int, ...]:
    """The extents of the gathered tensor: those of the numbers, then those of a row."""
    return (*numbers, *source[1:])


def gathered_strides(strides: Sequence[int], numbers: Sequence[int]) -> tuple[int, ...]:
    """The strides that the gathered tensor would have, were its rows those of the source in order.

    A start is as aligned as these say, whichever rows the numbers name.
    """
    rows = [strides[0] * math.prod(numbers[dim + 1 :]) for dim in range(len(numbers))]
    return (*rows, *strides[1:])


def row_strides(strides: Sequence[int], numbers: Sequence[int]) -> tuple[int, ...]:
    """The strides inside of a row: 0 along the dimensions of the numbers."""
    return (*[0] * len(numbers), *strides[1:])
