"""What a collective of ``torch.distributed`` leaves on this device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from xdsl.ir import Attribute, Block

from mugraph.dialects import kn
from mugraph.dialects.tensor_types import layout_of, row_major_strides, shape_of, strides_of
from mugraph.jit.groups import Group


def exchange(op: kn.CollectiveOp, value: Any, group: Group) -> Any:
    """What a collective leaves on this device.

    Work is enqueued on the current stream of torch, as that of kernels is.
    """
    torch, distributed = import_module("torch"), import_module("torch.distributed")
    process_group, members, place = group
    count = len(members)
    cut, joined = op.cut_dim, op.joined_dim
    if op.combination is not None:
        function = getattr(distributed.ReduceOp, str(op.combination).upper())
        if cut is None:
            total = value
            if not (_is_overwritable(op) and value.is_contiguous()):
                total = value.clone(memory_format=torch.contiguous_format)
            distributed.all_reduce(total, function, process_group)
            return total
        pieces = _pieces(value, cut, members)
        part = pieces.new_empty(pieces.shape[1:])
        _named("reduce_scatter_single", "reduce_scatter_tensor")(
            part.view(-1), pieces.view(-1), function, process_group
        )
        return part
    if joined is None:
        return value.chunk(count, cut)[op.taken_place(place)].contiguous()
    if cut is None:
        received = value.new_empty((count, *value.shape))
        _named("all_gather_single", "all_gather_into_tensor")(
            received.view(-1), value.contiguous().view(-1), process_group
        )
    else:
        pieces = _pieces(value, cut, members)
        received = pieces.new_empty(pieces.shape)
        distributed.all_to_all_single(received, pieces, group=process_group)
    if _lie_in_order(received.shape[1:], joined, members):
        return received.view(shape_of(op.result.type))
    return torch.cat([received[member] for member in members], joined)


def _is_overwritable(op: kn.CollectiveOp) -> bool:
    """Whether a kernel made the operand for this collective alone."""
    kept = (Block, kn.CollectiveOp, kn.SliceOp, kn.CopyOp)
    made_by_kernel = not isinstance(op.input.owner, kept)
    return made_by_kernel and op.input.has_one_use()


def _lie_in_order(part: Sequence[int], dim: int, members: Sequence[int]) -> bool:
    """Whether parts along a dimension lie in a row-major tensor as the process group has them."""
    return math.prod(part[:dim]) == 1 and list(members) == sorted(members)


def _pieces(value: Any, dim: int, members: Sequence[int]) -> Any:
    """Parts of a tensor along a dimension, in the order in which the process group has them."""
    parts = value.chunk(len(members), dim)
    if _lie_in_order(value.shape, dim, members):
        return value.contiguous().view(len(members), *parts[0].shape)
    order = sorted(range(len(members)), key=lambda place: members[place])
    return import_module("torch").stack([parts[place] for place in order])


def _named(name: str, before: str) -> Any:
    """A function of ``torch.distributed`` that older versions have under another name."""
    distributed = import_module("torch.distributed")
    return getattr(distributed, name, None) or getattr(distributed, before)


def laid_out(value: Any, type_: Attribute) -> Any:
    """A tensor with the strides that its type says."""
    layout, shape = layout_of(type_), shape_of(type_)
    strides = row_major_strides(shape) if layout is None else strides_of(layout)
    if tuple(value.stride()) == tuple(strides):
        return value
    if value.is_contiguous() and tuple(strides) == row_major_strides(shape):
        # They differ in dimensions of one element, which may have any stride.
        return value.as_strided(shape, strides)
    result = value.new_empty_strided(shape, strides)
    return result.copy_(value)
