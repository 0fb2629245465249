"""``--overlap-collectives``: products in parts, exchanged while others are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sharding import is_per_device
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.overlap.cuts import Chain, makers_of, users_of
from mugraph.passes.program.overlap.rewrite import deliver, fetch
from mugraph.passes.program.overlap.times import time_delivered, time_fetched
from mugraph.passes.program.use_peers import ways_of
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

__all__ = ["OverlapCollectivesPass", "overlap_collectives"]


class Plan(NamedTuple):
    """What is computed in parts of a dimension before a collective, or behind it."""

    dim: int
    makers: Chain | None
    users: Chain | None
    microseconds: float
    """What that takes, against the products alone."""


def overlap_collectives(function: FuncOp, target: Target, *, everywhere: bool = False) -> None:
    """Computes in parts what stands before sums over devices, and behind what is gathered.

    Where that takes less time than the collective takes by itself, or wherever it can.
    """
    for op in list(function.walk()):
        if not isinstance(op, kn.CollectiveOp) or op.devices == 1:
            continue
        plan = _plan_of(op, target, everywhere=everywhere)
        if plan is None:
            continue
        if everywhere or plan.microseconds < min(ways_of(op)):
            own = op.input if plan.makers is None else deliver(op, plan.dim, plan.makers)
            if op.cut_dim is None:
                fetch(op, own, plan.dim, plan.users)
            else:
                Rewriter.replace_op(op, [], [own])


def _plan_of(op: kn.CollectiveOp, target: Target, *, everywhere: bool) -> Plan | None:
    """How a collective overlaps with products; ``None`` where it cannot."""
    match op:
        case kn.AllGatherOp():
            users = users_of(op.result, op.joined_dim, op.devices)
            if users is None:
                return None
            time = time_fetched(op.result, op.devices, users, target)
            return Plan(op.joined_dim, None, users, time)
        case kn.ReduceScatterOp():
            dims = [op.cut_dim]
        case kn.AllReduceOp():
            dims = [*range(len(shape_of(op.input.type)))]
        case _:
            return None
    for dim in dims:
        makers = makers_of(op.input, dim, op.devices)
        if makers is None:
            continue
        time = time_delivered(op.input, op.devices, makers, target)
        if op.cut_dim is not None:
            return Plan(dim, makers, None, time)
        # What stands behind a sum that all devices need may begin with this one's part.
        users = users_of(op.result, dim, op.devices)
        joined = time_fetched(op.result, op.devices, None, target)
        if users is None:
            return Plan(dim, makers, None, time + joined)
        in_parts = time_fetched(op.result, op.devices, users, target)
        if everywhere or in_parts < joined:
            return Plan(dim, makers, users, time + in_parts)
        return Plan(dim, makers, None, time + joined)
    return None


@dataclass(frozen=True)
class OverlapCollectivesPass(ModulePass):
    """Computes products in parts, which devices exchange while they compute others.

    Before a sum over devices a device computes the part of each member by itself, its own at last,
    and what computes a part writes it into that member's memory.  The member adds up what it got,
    in the order of places; a sum that all devices need is then gathered.  Behind what is gathered a
    device begins with the part that it has, and copies those of the others meanwhile.  Operators
    are cut by their indices (``mugraph_dialects/device_cuts.py``): those from the first product
    before a sum, or up to what stands behind the first products.  Parts must be ranges of memory.
    It is done where it takes less time than the collective: by how much longer the products take in
    parts, the kernels and meetings that it adds, and what is left of the exchange.  With
    ``everywhere`` it is done wherever it can be.

    Before::

        %y = kn.matmul %x, %w : (tensor<8x16xf16>, tensor<16x4xf16>) -> tensor<8x4xf16>
        %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<8x4xf16> -> tensor<4x4xf16>

    After, on two devices::

        %x0 = kn.slice %x from [0, 0] {mugraph.part = array<i64: 0, 0>} : ...
        %y0 = kn.matmul %x0, %w {mugraph.part = array<i64: 0, 0>} : ...
        %x1 = kn.slice %x from [4, 0] {mugraph.part = array<i64: 1, 0>} : ...
        %y1 = kn.matmul %x1, %w {mugraph.part = array<i64: 1, 0>} : ...
        %y = kn.concat %y0, %y1 dim 0 : ...
        %d = kn.all_to_all %y axes [0] split 0 concat 0 delivered : ...
        %d0 = kn.slice %d from [0, 0] : tensor<8x4xf16> -> tensor<4x4xf16>
        %d1 = kn.slice %d from [4, 0] : tensor<8x4xf16> -> tensor<4x4xf16>
        %s = kn.add %d0, %d1 : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
    """

    name = "overlap-collectives"
    arch: str = DEFAULT_TARGET
    everywhere: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function that is the program of each device."""
        for function in op.walk():
            if isinstance(function, FuncOp) and is_per_device(function):
                overlap_collectives(function, target_named(self.arch), everywhere=self.everywhere)
