"""``--use-peers``: collectives of few bytes become loads from the memory of other devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple, TypeGuard

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.reductions import COMBINING
from mugraph.dialects.tensor_types import bytes_of, element_type_of, shape_of
from mugraph.passes.costs.devices import PeerLoads, library_microseconds
from mugraph.passes.each import DevicePass
from mugraph.passes.program.partition.segments import reads_again


class Ways(NamedTuple):
    """What a collective takes, in microseconds, in each way in which it can run."""

    library: float
    loads: float
    in_two: float
    """By loads of parts of sums, and then of the sums: infinite where it has no such form."""


def ways_of(op: kn.CollectiveOp) -> Ways:
    """What each way to run a collective takes."""
    library = library_microseconds(op.devices, op.bytes_sent())
    in_two = loads_in_two(op)
    return Ways(
        library, loads_of(op).microseconds, math.inf if in_two is None else in_two.microseconds
    )


def loads_of(op: kn.CollectiveOp) -> PeerLoads:
    """A collective as loads of what the others hold."""
    own = bytes_of(op.input.type)
    piece = own if op.cut_dim is None else own // op.devices
    launches = meetings_of(op) + (not _is_made_here(op.input)) + (not shares_a_kernel(op.result))
    return PeerLoads(op.devices, launches, piece * (op.devices - 1))


def meetings_of(op: kn.CollectiveOp) -> int:
    """How often devices meet for an exchange: once more where no other one keeps calls apart."""
    return 1 if _has_others(op) else 2


def loads_in_two(op: kn.CollectiveOp) -> PeerLoads | None:
    """A sum of which each device makes a part, and then loads the other parts, if it is one."""
    if _dim_of_two(op) is None:
        return None
    own = bytes_of(op.input.type)
    launches = 3 + (not _is_made_here(op.input)) + (not shares_a_kernel(op.result))
    return PeerLoads(op.devices, launches, 2 * own * (op.devices - 1) // op.devices)


def _has_others(op: kn.CollectiveOp) -> bool:
    """Whether the program has another collective of the same devices."""
    block = op.parent_block()
    assert block is not None
    return any(
        other is not op
        and isinstance(other, kn.CollectiveOp)
        and (_exchanges(other) or _is_among_peers(other))
        and other.grid_axes == op.grid_axes
        for other in block.ops
    )


def _exchanges(op: Operation) -> TypeGuard[kn.CollectiveOp]:
    """Whether an operator combines or joins what devices hold, and sends it."""
    if not isinstance(op, kn.CollectiveOp) or _is_among_peers(op):
        return False
    return op.combination is not None or op.joined_dim is not None


def _is_among_peers(op: Operation) -> bool:
    """Whether devices reach each other's memory for an operator already."""
    return isinstance(op, kn.PeerOp) or (isinstance(op, kn.AllToAllOp) and op.delivered is not None)


def _is_made_here(value: SSAValue) -> bool:
    """Whether a kernel of this device makes a tensor, which may write it where others read it."""
    return not isinstance(value.owner, Block | kn.CollectiveOp)


def shares_a_kernel(value: SSAValue) -> bool:
    """Whether what reads a tensor can read it from other devices."""
    users = [use.operation for use in value.uses]
    return all(
        not isinstance(user, kn.CollectiveOp | ReturnOp) and not reads_again(user) for user in users
    )


def _dim_of_two(op: kn.CollectiveOp) -> int | None:
    """The dimension of which each device makes a part of a sum that all of them need."""
    if op.combination is None or op.cut_dim is not None or op.devices == 1:
        return None
    extents = enumerate(shape_of(op.input.type))
    return next((dim for dim, extent in extents if extent % op.devices == 0), None)


def use_peers(function: FuncOp, *, everywhere: bool = False) -> None:
    """Makes collectives of loads from other devices: those for which that pays, or all of them."""
    for op, ways in [(op, ways_of(op)) for op in function.walk() if _exchanges(op)]:
        library = math.inf if everywhere else ways.library
        if ways.in_two < min(library, ways.loads):
            for each in _cut_in_two(op):
                _load(each)
        elif everywhere or ways.loads < library:
            _load(op)


def _cut_in_two(op: kn.CollectiveOp) -> tuple[kn.CollectiveOp, kn.CollectiveOp]:
    """Writes a sum that all devices need as parts of it, which are gathered."""
    dim, combiner = _dim_of_two(op), op.combination
    assert dim is not None
    assert combiner is not None
    shape = list(shape_of(op.input.type))
    shape[dim] //= op.devices
    part = TensorType(element_type_of(op.input.type), shape)
    made = kn.ReduceScatterOp(op.input, op.grid_axes, dim, part, combiner)
    whole = kn.AllGatherOp(made.result, op.grid_axes, dim, op.result.type)
    for each in (made, whole):
        inherit_location(each, op)
    Rewriter.replace_op(op, [made, whole], whole.results)
    return made, whole


def _load(op: kn.CollectiveOp) -> None:
    """Writes a collective as what a device does with the tensors of all members, in their order."""
    axes = op.grid_axes
    taken: list[kn.CollectiveOp] = [kn.PeerOp(op.input, axes, p) for p in range(op.devices)]
    new = [*taken]
    if op.cut_dim is not None:
        shape = list(shape_of(op.input.type))
        shape[op.cut_dim] //= op.devices
        part = TensorType(element_type_of(op.input.type), shape)
        taken = [kn.AllSliceOp(each.result, axes, op.cut_dim, part) for each in taken]
        new += taken
    pieces = [each.result for each in taken]
    made: list[Operation] = []
    if op.combination is not None:
        function = kn.BINARY_OPERATORS[COMBINING[op.combination]]

        def combine(one: SSAValue, other: SSAValue) -> SSAValue:
            made.append(function(one, other, op.result.type))
            return made[-1].results[0]

        reduce(combine, pieces)
    else:
        assert op.joined_dim is not None
        made.append(kn.ConcatOp(pieces, op.joined_dim, op.result.type))
    for each in (*new, *made):
        inherit_location(each, op)
    Rewriter.replace_op(op, [*new, *made], made[-1].results)


@dataclass(frozen=True)
class UsePeersPass(DevicePass):
    """Replaces collectives of few bytes by loads from the memory of other devices.

    A collective of NCCL starts kernels of its own, and the following kernels wait for them. Devices
    of one host can load from each other instead: after a meeting, each device reads the tensors of
    all members (``kn.peer``) and combines or joins them in the order of places, so all devices get
    the same bits. These operators share a kernel with what follows. The pass does this where it is
    estimated to take less time, by the bytes that a device loads and sends.

    Before::

        %s = kn.all_reduce %x axes [0] : tensor<4x64xf16> -> tensor<4x64xf16>

    After, on two devices::

        %p = kn.peer %x axes [0] place 0 : tensor<4x64xf16> -> tensor<4x64xf16>
        %q = kn.peer %x axes [0] place 1 : tensor<4x64xf16> -> tensor<4x64xf16>
        %s = kn.add %p, %q : (tensor<4x64xf16>, tensor<4x64xf16>) -> tensor<4x64xf16>
    """

    name = "use-peers"
    everywhere: bool = False

    def run(self, function: FuncOp) -> None:
        """Rewrites the program of each device."""
        use_peers(function, everywhere=self.everywhere)
