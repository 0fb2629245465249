"""``--overlap-collectives``: what products make is exchanged while they go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.each import DevicePass, TargetPass
from mugraph.passes.program.overlap.cuts import (
    Chain,
    can_be_pushed,
    makers_of,
    users_of,
)
from mugraph.passes.program.overlap.rewrite import deliver, fetch, push
from mugraph.passes.program.overlap.stages import add_up, ranges_of
from mugraph.passes.program.overlap.times import (
    time_added,
    time_delivered,
    time_fetched,
    time_pushed,
)
from mugraph.passes.program.use_peers import ways_of
from mugraph.passes.targets import Target

__all__ = ["OverlapCollectivesPass", "Way", "overlap_collectives"]


class Way(StrEnum):
    """How a collective overlaps with products."""

    PARTS = "parts"
    """Parts are computed one after the other, and exchanged meanwhile."""
    ADDED = "added"
    """A device computes its own part at last, and adds what it got of the others to it."""
    PUSHED = "pushed"
    """The kernel that computes a tensor stores it on all devices."""


class TimedWay(NamedTuple):
    """One way in which a collective overlaps with products."""

    way: Way
    microseconds: float
    """What that takes, against the products alone."""
    write: Callable[[], None]


def overlap_collectives(
    function: FuncOp,
    target: Target,
    *,
    everywhere: bool = False,
    way: Way | None = None,
    members: int | None = None,
) -> None:
    """Overlaps products with the sums over devices behind them, and the gathers before them.

    It is done where it takes less time than the collective by itself, or ``everywhere`` that it can
    be; with ``way`` in that way alone, with ``members`` in parts of so many members.
    """
    for op in list(function.walk()):
        if not isinstance(op, kn.CollectiveOp) or op.devices == 1:
            continue
        sizes = [size for size in range(1, op.devices) if op.devices % size == 0]
        plans = [
            plan
            for size in (sizes if members not in sizes else [members])
            for plan in _in_parts(op, target, size)
        ]
        plans += _pushed(op, target)
        plans = [plan for plan in plans if way is None or plan.way is way]
        if everywhere and plans:
            plans[0].write()
        elif plans:
            fastest = min(plans, key=lambda plan: plan.microseconds)
            if fastest.microseconds < min(ways_of(op)):
                fastest.write()
    for op in reversed(list(function.walk())):
        # Each part has its own.
        if isinstance(op, kn.RegroupOp) and not op.result.first_use:
            Rewriter.erase_op(op)


def _pushed(op: kn.CollectiveOp, target: Target) -> Iterator[TimedWay]:
    """A sum or a gather of which each device writes its own into the memory of all."""
    if isinstance(op, kn.AllReduceOp | kn.AllGatherOp) and can_be_pushed(op):
        yield TimedWay(Way.PUSHED, time_pushed(op, target), lambda: push(op))


def _in_parts(op: kn.CollectiveOp, target: Target, members: int) -> Iterator[TimedWay]:
    """A sum or a gather whose parts are exchanged while others are computed.

    A kernel computes the parts of so many ``members``.
    """
    match op:
        case kn.AllGatherOp():
            users = users_of(op.result, op.joined_dim, op.devices)
            if users is not None:
                time = time_fetched(op.result, op.devices, users, members, target)
                fetched = partial(fetch, op, op.input, op.joined_dim, users, members)
                yield TimedWay(Way.PARTS, time, fetched)
            return
        case kn.ReduceScatterOp():
            dims = [op.cut_dim]
        case kn.AllReduceOp():
            dims = [*range(len(shape_of(op.input.type)))]
        case _:
            return
    makers = ((dim, makers_of(op.input, dim, op.devices)) for dim in dims)
    dim, chain = next((each for each in makers if each[1] is not None), (0, None))
    if chain is None:
        return
    time = time_delivered(op.input, op.devices, chain, members, target)
    if op.cut_dim is not None:
        yield TimedWay(
            Way.PARTS, time, lambda: Rewriter.replace_op(op, [], [deliver(op, dim, chain, members)])
        )
    else:
        # What stands behind a sum that all devices need may begin with this one's part.
        users = users_of(op.result, dim, op.devices)
        for to in (users, None) if users is not None else (None,):
            fetched = time_fetched(op.result, op.devices, to, members, target)
            write = partial(_deliver_and_fetch, op, dim, chain, to, members)
            yield TimedWay(Way.PARTS, time + fetched, write)
    for ranges in ranges_of(op, chain) if members == 1 else ():
        added = time_added(op, chain, ranges, target)
        yield TimedWay(Way.ADDED, added, partial(add_up, op, dim, chain, ranges))


def _deliver_and_fetch(
    op: kn.CollectiveOp, dim: int, chain: Chain, users: Chain | None, members: int
) -> None:
    fetch(op, deliver(op, dim, chain, members), dim, users, members)


@dataclass(frozen=True)
class OverlapCollectivesPass(TargetPass, DevicePass):
    """Overlaps the exchange of tensors between devices with the products that make or use them.

    Before a sum over devices there are three ways:

    - *Parts*: a device computes the part of each member by itself, its own part last. A copy engine
      brings each part to its member while the next one is computed. The member adds up what it
      received, in the order of places. If all devices need the sum, it is then gathered.
    - *Pushed*: the kernel that makes a summand writes it into the memory of all members
      (``kn.copy`` with a place), and each member adds up all of it. That takes one meeting and more
      bytes.
    - *Added*: the part of a member goes from device to device. Each adds its product to what it
      received, in ranges of rows that are copied while the next ones are computed (``stages.py``).

    After a gather a device begins with the part that it has, and copies the others' parts
    meanwhile. If the part of one member has too few tiles for all multiprocessors, a kernel
    computes the parts of several consecutive members.

    Operators are cut along their indices (``mugraph_dialects/device_cuts.py``): from the first
    product up to the sum, or from the gather up to the first products after it. Parts must be
    ranges of memory.

    The pass does this where it is estimated to take less time than the collective. The estimate
    counts how much longer the products take in parts, the added kernels and meetings, and the
    exchange that stays visible. Options for measurements: ``everywhere`` does it wherever it is
    possible, ``way`` (``parts``, ``added`` or ``pushed``) allows one way only, and ``members`` cuts
    into parts of so many members.

    Before::

        %y = kn.matmul %x, %w : (tensor<8x16xf16>, tensor<16x4xf16>) -> tensor<8x4xf16>
        %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<8x4xf16> -> tensor<4x4xf16>

    After, on two devices::

        %x0 = kn.slice %x from [0, 0] {mugraph.part = array<i64: 0, 1, 0>} : ...
        %y0 = kn.matmul %x0, %w {mugraph.part = array<i64: 0, 1, 0>} : ...
        %x1 = kn.slice %x from [4, 0] {mugraph.part = array<i64: 1, 1, 0>} : ...
        %y1 = kn.matmul %x1, %w {mugraph.part = array<i64: 1, 1, 0>} : ...
        %y = kn.concat %y0, %y1 dim 0 : ...
        %d = kn.all_to_all %y axes [0] split 0 concat 0 delivered : ...
        %d0 = kn.slice %d from [0, 0] : tensor<8x4xf16> -> tensor<4x4xf16>
        %d1 = kn.slice %d from [4, 0] : tensor<8x4xf16> -> tensor<4x4xf16>
        %s = kn.add %d0, %d1 : (tensor<4x4xf16>, tensor<4x4xf16>) -> tensor<4x4xf16>
    """

    name = "overlap-collectives"
    everywhere: bool = False
    way: str | None = None
    members: int | None = None

    def check_options(self) -> None:
        """Raises ``PassFailedException`` for a way or a target that there is none of."""
        super().check_options()
        if self.way not in (None, *Way):
            known = ", ".join(Way)
            raise PassFailedException(f"--{self.name}: way={self.way} is none of {known}")

    def run(self, function: FuncOp) -> None:
        """Rewrites the program of each device."""
        overlap_collectives(
            function,
            self.target,
            everywhere=self.everywhere,
            way=None if self.way is None else Way(self.way),
            members=self.members,
        )
