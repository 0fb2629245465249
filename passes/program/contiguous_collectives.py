"""``--contiguous-collectives``: what members of a group exchange becomes ranges of memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.each import DevicePass


@dataclass
class _Around:
    """Operators that move the elements of one tensor, before or behind a collective."""

    like: Operation
    made: list[Operation] = field(default_factory=list[Operation])

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The tensor with other extents, in the same order."""
        if tuple(shape) == shape_of(value.type):
            return value
        return self._add(kn.ReshapeOp(value, TensorType(element_type_of(value.type), shape)))

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """The tensor with its dimensions in another order."""
        if list(order) == sorted(order):
            return value
        shape = [shape_of(value.type)[dim] for dim in order]
        type_ = TensorType(element_type_of(value.type), shape)
        return self._add(kn.TransposeOp(value, list(order), type_))

    def exchange(self, op: kn.CollectiveOp, value: SSAValue, cuts: bool, joins: bool) -> SSAValue:
        """The same collective along the first dimension."""
        first, *others = shape_of(value.type)
        first = first // op.devices if cuts and not joins else first
        first = first * op.devices if joins and not cuts else first
        type_ = TensorType(element_type_of(value.type), [first, *others])
        match op:
            case kn.AllToAllOp():
                return self._add(kn.AllToAllOp(value, op.grid_axes, 0, 0, type_))
            case kn.ReduceScatterOp():
                return self._add(kn.ReduceScatterOp(value, op.grid_axes, 0, type_, op.combination))
            case _:
                return self._add(kn.AllGatherOp(value, op.grid_axes, 0, type_))

    def _add(self, op: Operation) -> SSAValue:
        inherit_location(op, self.like)
        self.made.append(op)
        return op.results[0]


def _make_outermost(op: kn.CollectiveOp) -> None:
    """Writes a collective as one along the first dimension, between others that move elements."""
    around, rank = _Around(op), len(shape_of(op.input.type))
    cut, joined = op.cut_dim, op.joined_dim
    value: SSAValue = op.input
    front = cut if cut is not None else joined
    assert front is not None
    order = [front, *(dim for dim in range(rank) if dim != front)]
    value = around.transpose(value, order)
    value = around.exchange(op, value, cut is not None, joined is not None)
    if joined is not None:
        # The members' tensors one after the other; their number moves to what they are joined by.
        first, *others = shape_of(value.type)
        value = around.reshape(value, [op.devices, first // op.devices, *others])
        back = [0] * rank
        for place, dim in enumerate(order):
            back[dim] = place + 1
        back.insert(joined, 0)
        value = around.transpose(value, back)
        value = around.reshape(value, shape_of(op.result.type))
    else:
        value = around.transpose(value, [order.index(dim) for dim in range(rank)])
    Rewriter.replace_op(op, around.made, [value])


def _is_exchanged(op: Operation) -> TypeGuard[kn.CollectiveOp]:
    """Whether members send one another tensors."""
    return isinstance(op, kn.CollectiveOp) and (
        op.combination is not None or op.joined_dim is not None
    )


def make_contiguous(function: FuncOp) -> None:
    """Rewrites the collectives of a function, and lays out what they take and give."""
    for op in list(function.walk()):
        if _is_exchanged(op):
            dims = [dim for dim in (op.cut_dim, op.joined_dim) if dim is not None]
            if any(math.prod(shape_of(op.input.type)[:dim]) != 1 for dim in dims):
                _make_outermost(op)
    for op in function.walk():
        if _is_exchanged(op):
            kn.lay_out_row_major(op.input)
            kn.lay_out_row_major(op.result)
    # Arguments and results may have been laid out, too.
    last = function.get_return_op()
    if isinstance(last, ReturnOp):
        function.update_function_type()


class ContiguousCollectivesPass(DevicePass):
    """Makes collectives cut and join only the first dimension of row-major tensors.

    NCCL sends and receives ranges of memory: the part of a device is one range if the first
    dimension is cut or joined. Transposes move other dimensions there; they share kernels with the
    operators around them.

    Before::

        %y = kn.all_gather %x axes [0] dim 1 : tensor<4x8xf16> -> tensor<4x16xf16>

    After::

        %t = kn.transpose %x dims [1, 0] : tensor<4x8xf16> -> tensor<8x4xf16>
        %g = kn.all_gather %t axes [0] dim 0 : tensor<8x4xf16> -> tensor<16x4xf16>
        %m = kn.reshape %g : tensor<16x4xf16> -> tensor<2x8x4xf16>
        %n = kn.transpose %m dims [2, 0, 1] : tensor<2x8x4xf16> -> tensor<4x2x8xf16>
        %y = kn.reshape %n : tensor<4x2x8xf16> -> tensor<4x16xf16>
    """

    name = "contiguous-collectives"

    def run(self, function: FuncOp) -> None:
        """Rewrites the program of each device."""
        make_contiguous(function)
