"""Execution of channels, order barriers and bulk copies at the level of addresses."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.interpreter import (
    InterpreterFunctions,
    PythonValues,
    register_impls,
)

from mugraph.dialects import sched
from mugraph.runtime.interpreter.address_level import AddressFunctions, Landing
from mugraph.runtime.interpreter.address_plans import CopyPlan
from mugraph.runtime.interpreter.dispatch import runs
from mugraph.runtime.interpreter.mbarriers import Channel, OrderBarrier, in_memory
from mugraph.runtime.interpreter.memory import Storage, poison

Store = Callable[[bool], None]
"""Reads the buffer of a bulk copy and writes the tile; false where the block has ended before."""


@register_impls
class BulkFunctions(InterpreterFunctions):
    """One implementation an operator; a channel is an :class:`Channel`.

    A bulk copy to shared memory is on its way until its mbarrier lets it land, and its destination
    is poison until then; with ``Landing.EARLIEST`` it lands at once.  One to device memory reads
    its buffer when it is waited for, or at once.
    """

    def __init__(self, functions: AddressFunctions) -> None:
        self.functions = functions
        self.channels: list[Channel] = []
        self.stores: list[tuple[int, Store]] = []
        """Bulk copies to device memory on their way, with the thread of the block that issued."""

    @runs(sched.ChannelOp)
    def run_channel(self, op: sched.ChannelOp, args: PythonValues) -> PythonValues:
        """The mbarriers at their planned places."""
        channel = Channel.of(
            op, in_memory(op, op.result, self.functions.frame.memory), op.stage_payload()
        )
        self.channels.append(channel)
        return (channel,)

    @runs(sched.OrderBarrierOp)
    def run_order_barrier(self, op: sched.OrderBarrierOp, args: PythonValues) -> PythonValues:
        """The mbarriers at their planned places."""
        return (OrderBarrier.of(op, in_memory(op, op.result, self.functions.frame.memory)),)

    @runs(sched.BulkCopyOp)
    def run_bulk_copy(self, op: sched.BulkCopyOp, args: PythonValues) -> PythonValues:
        """Issued by the first thread of those that run the operator."""
        frame = self.functions.frame
        if frame.threads.start:
            return ()
        if not op.stage.happens_at(frame.iteration, frame.iterations):
            return ()
        plan = self.functions.plans.of(op, CopyPlan.of_bulk)
        if op.is_load:
            self._load(op, plan, args)
        else:
            self._store(plan, args)
        return ()

    def _load(self, op: sched.BulkCopyOp, plan: CopyPlan, args: PythonValues) -> None:
        functions = self.functions
        frame = functions.frame
        source, destination, channel = args
        values = functions.read(plan.source, source)
        chosen = plan.destination.of(frame.threads)
        size = chosen.offsets.size * plan.destination.dtype.itemsize
        mbarrier = channel.full_of(frame.before + op.stage.iteration_at(frame.iteration))
        if frame.landing is Landing.EARLIEST:
            functions.write(plan.destination, destination, values)
            mbarrier.receive(size)
            return
        land = functions.issue(plan.destination, destination, values)
        mbarrier.flying.append((land, size))

    def _store(self, plan: CopyPlan, args: PythonValues) -> None:
        functions = self.functions
        frame = functions.frame
        source, destination = (_as_place(value) for value in args[:2])
        chosen = plan.source.of(frame.threads)
        read_from = functions.starts(plan.source, source)
        write = functions.writer(plan.destination, destination)

        def store(in_time: bool) -> None:
            values = source.read(plan.source.dtype, chosen.offsets, read_from)
            if not in_time:
                values = np.broadcast_to(poison(plan.source.dtype), values.shape)
            write(values)

        if frame.landing is Landing.EARLIEST:
            store(True)
        else:
            self.stores.append((frame.first_thread, store))

    @runs(sched.BulkWaitOp)
    def run_bulk_wait(self, op: sched.BulkWaitOp, args: PythonValues) -> PythonValues:
        """The running threads' copies to device memory read their buffers."""
        frame = self.functions.frame
        if not frame.threads.start:
            for thread, store in self.stores:
                if thread == frame.first_thread:
                    store(True)
            self.stores = [each for each in self.stores if each[0] != frame.first_thread]
        return ()

    @runs(sched.ClusterBarrierOp)
    def run_cluster_barrier(self, op: sched.ClusterBarrierOp, args: PythonValues) -> PythonValues:
        """Nothing: each block brings the whole tile to itself."""
        return ()

    @runs(sched.ProxyFenceOp)
    def run_proxy_fence(self, op: sched.ProxyFenceOp, args: PythonValues) -> PythonValues:
        """Nothing: there is one path to memory here."""
        return ()

    def land(self) -> bool:
        """Lets copies of one stage land; whether there were any."""
        for channel in self.channels:
            for mbarrier in channel.full:
                if mbarrier.flying:
                    mbarrier.land()
                    return True
        return False

    def finish(self) -> None:
        """The blocks have ended; what is still on its way reads what is no longer there."""
        for _, store in self.stores:
            store(False)
        self.stores = []


def _as_place(value: object) -> Storage:
    assert isinstance(value, Storage)
    return value
