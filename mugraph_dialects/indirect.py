"""Indirect tiles: numbers in memory say which rows of a tensor they have.

A row is what a tensor has at a place of its first dimension: a page of a cache, an expert, the
embedding of a token.  A tensor of numbers stands for as many rows, one behind the other in its own
extents: the *gathered* tensor, which ``kn.gather`` would write.  Tiles are cut from the gathered
tensor, whose elements are read from where the rows are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label


class ReadsRows(Operation, ABC):
    """An operator of which an operand's numbers may name rows."""

    @abstractmethod
    def rows_named(self, operand: int) -> int | None:
        """How many rows there are for the numbers of an operand; ``None`` where it names none."""


class LaunchesKernel(Operation, ABC):
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


def verify_numbers(op: Operation, source: SSAValue, through: SSAValue) -> None:
    """Raises ``VerifyException`` unless ``through`` can say which rows of ``source`` are meant."""
    number = element_type_of(through.type)
    if number != i32:
        raise VerifyException(
            f"{op_label(op)}: the numbers of rows that it reads 'through' {value_label(through)} "
            f"are of {number}; expected i32: insert a 'kn.cast' before the kernel"
        )
    if not shape_of(source.type):
        raise VerifyException(
            f"{op_label(op)}: {value_label(source)} has no dimension, and so no rows that "
            f"{value_label(through)} could name; load it without 'through'"
        )


__all__ = [
    "LaunchesKernel",
    "ReadsRows",
    "gathered_shape",
    "gathered_strides",
    "row_strides",
    "verify_numbers",
]
