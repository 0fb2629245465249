"""``--use-peers``: collectives of few bytes become loads from the memory of other devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.sharding import is_per_device
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.passes.program.expand_mesh import COMBINING


@dataclass(frozen=True)
class Way:
    """What a way to run a collective costs: microseconds to begin with, and bytes in each."""

    start: float
    rate: float

    def microseconds(self, count: int) -> float:
        """The time of so many bytes over one device's link."""
        return self.start + count / self.rate


# Four H200 of one host, PyTorch 2.11; benchmarks/collectives.py measures them.
LIBRARY = Way(start=12.3, rate=160e3)
"""NCCL's collectives, of the bytes that a device sends."""
PEERS = Way(start=6.8, rate=250e3)
"""A meeting of all devices, and loads that follow it, of the bytes that a device loads."""
MOST_BYTES = 2**21
"""A device loads no more than this from others: longer exchanges were not measured."""


def loaded_bytes(op: kn.CollectiveOp) -> int:
    """The bytes that each device loads from the others where a collective is made of loads."""
    own = math.prod(shape_of(op.input.type)) * element_bytes_of(op.input.type)
    piece = own if op.cut_dim is None else own // op.devices
    return piece * (op.devices - 1)


def peers_pay(loaded: int, sent: int) -> bool:
    """Whether loads from other devices take less time than a collective of the library."""
    return loaded <= MOST_BYTES and PEERS.microseconds(loaded) < LIBRARY.microseconds(sent)


def use_peers(function: FuncOp) -> None:
    """Makes the collectives for which that pays of loads from other devices."""
    for op in list(function.walk()):
        if (
            isinstance(op, kn.CollectiveOp)
            and (op.combination is not None or op.joined_dim is not None)
            and peers_pay(loaded_bytes(op), op.bytes_sent())
        ):
            _load(op)


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
class UsePeersPass(ModulePass):
    """Makes collectives of few bytes of loads from other devices.

    A collective of the library starts its own kernels, and moves what all kernels after it wait
    for.  Devices of one host can load from each other instead: once all have met, each reads the
    tensors of all members (``kn.peer``) and combines or joins them in the order of places, the same
    on each device.  Those operators share a kernel with what follows.  It is done where it takes
    less time, by the bytes that a device loads and those that it would send.

    Before::

        %s = kn.all_reduce %x axes [0] : tensor<4x64xf16> -> tensor<4x64xf16>

    After, on two devices::

        %p = kn.peer %x axes [0] place 0 : tensor<4x64xf16> -> tensor<4x64xf16>
        %q = kn.peer %x axes [0] place 1 : tensor<4x64xf16> -> tensor<4x64xf16>
        %s = kn.add %p, %q : (tensor<4x64xf16>, tensor<4x64xf16>) -> tensor<4x64xf16>
    """

    name = "use-peers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function that is the program of each device."""
        for function in op.walk():
            if isinstance(function, FuncOp) and is_per_device(function):
                use_peers(function)


__all__ = ["UsePeersPass", "use_peers"]
