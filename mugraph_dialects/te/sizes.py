"""Sizes that a call says: numbers of a function that extents of its buffers are.

Such a function says what its names mean as programs of tensors do
(:mod:`mugraph.dialects.named_extents`), and has a number for each behind its buffers::

    func.func @f(%x: !te.buffer<8192x64xf16> {mugraph.extent = ["m", ""]}, %m: index
        {mugraph.extent = "m"}) attributes {mugraph.extents = {m = {largest = 8192}}}

The type of a buffer has the largest extents; elements behind those of the call are not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

from mugraph.dialects.named_extents import NamedExtent, argument_names, named_extents
from mugraph.dialects.tensor_types import LaidOutType, row_major_strides


def _function_of(value: SSAValue) -> FuncOp | None:
    """The function that a value is a parameter of."""
    block = value.owner
    function = block.parent_op() if isinstance(block, Block) else None
    return function if isinstance(function, FuncOp) else None


def size_arguments(function: FuncOp) -> dict[str, SSAValue]:
    """The numbers that hold the sizes of a function, by name."""
    return {
        argument_names(function, number)[0]: argument
        for number, argument in enumerate(function.args)
        if isinstance(argument.type, IndexType)
    }


def size_of(value: SSAValue) -> NamedExtent | None:
    """What is known of a size; ``None`` where a value is none."""
    if not isinstance(value.type, IndexType) or (function := _function_of(value)) is None:
        return None
    number = function.args.index(value)
    (name,) = argument_names(function, number)
    return named_extents(function)[name]


def factors_of_strides(buffer: SSAValue) -> tuple[int, ...]:
    """What divides the strides of a row-major buffer, whatever a call says."""
    shape = list(cast(LaidOutType, buffer.type).get_shape())
    for dim, end in ends_of(buffer).items():
        size = size_of(end)
        shape[dim] = shape[dim] if size is None else size.multiple
    return row_major_strides(shape)


def ends_of(buffer: SSAValue) -> Mapping[int, SSAValue]:
    """The sizes that are the extents of a buffer, by dimension."""
    function = _function_of(buffer)
    if function is None or not named_extents(function):
        return {}
    sizes = size_arguments(function)
    names = argument_names(function, function.args.index(buffer))
    return {dim: sizes[name] for dim, name in enumerate(names) if name}
