"""The lengths of a kernel, which tensors of a call hold."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from mugraph.dialects.launch_extents import HeldLength
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.errors import ExecutionError


def length_in(op: Operation, held: Array, largest: int) -> int:
    """The number that a tensor holds; raises ``ExecutionError`` where it is none from 0 on."""
    numbers = held.whole_numbers() if isinstance(held, ComponentArray) else held
    (value,) = numbers.reshape(-1)
    number = int(value)
    if not 0 <= number <= largest:
        raise ExecutionError(f"{op_label(op)} reads the length {number}; it may be 0 to {largest}")
    return number


def lengths_in(
    op: Operation, lengths: Sequence[HeldLength], arguments: Sequence[Array]
) -> list[int]:
    """The values of a kernel's lengths, of its arguments; raises as :func:`length_in`."""
    return [length_in(op, arguments[each.argument], each.largest) for each in lengths]


__all__ = ["length_in", "lengths_in"]
