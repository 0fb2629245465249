"""``--pipeline-products``: the products of warp groups run behind the program by one iteration.

A product that the program waits for where it stands leaves the tensor cores idle until the next one
is issued.  Issued asynchronously, the products of an iteration run while the next iteration finds
its tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.interfaces import written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.each import KernelPass, TargetPass
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.schedule.chained_products import delay_product, find_chained_loops
from mugraph.passes.schedule.lower_rings import is_lowered
from mugraph.passes.schedule.set_register_budgets import most_registers
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class PipelinedLoop:
    """A role's loop whose products can run behind it."""

    loop: sched.ForloopOp
    epilogue: sched.EpilogueOp
    products: tuple[sched.WarpgroupMmaOp, ...]


def find_pipelined_loops(kernel: sched.KernelOp) -> Iterator[PipelinedLoop]:
    """The loops whose products nothing in the loop waits for."""
    for role in roles_of(kernel):
        phases = loop_and_epilogue(role.body.block)
        if phases is None or phases[0].iterations < 2:
            continue
        found = _pipelined(*phases)
        if found is not None:
            yield found


def _pipelined(loop: sched.ForloopOp, epilogue: sched.EpilogueOp) -> PipelinedLoop | None:
    body = list(loop.body.block.ops)
    products = [op for op in body if isinstance(op, sched.WarpgroupMmaOp)]
    if not products or any(op.is_async or op.through is not None for op in products):
        return None  # threads convert what they multiply, and wait for it
    sums = {value for op in products for value in op.accumulators}
    operands = {value for op in products for value in (op.lhs, op.rhs)}
    others = [op for op in body if op not in products]
    if any(_touches(op, sums) or _writes(op, operands) for op in others):
        return None
    # A stage is kept one iteration longer, so there must be another one.
    channels = [op.channel.owner for op in body if isinstance(op, sched.ConsumeOp)]
    if any(not isinstance(op, sched.ChannelOp) or op.stage_count < 2 for op in channels):
        return None
    return PipelinedLoop(loop, epilogue, tuple(products))


def _touches(op: Operation, values: set[SSAValue]) -> bool:
    return any(inner_value in values for inner in op.walk() for inner_value in inner.operands)


def _writes(op: Operation, values: set[SSAValue]) -> bool:
    return any(values.intersection(written_by(inner)) for inner in op.walk())


def pipeline_products(found: PipelinedLoop) -> None:
    """Issues the products asynchronously, and waits for those of the iteration before.

    Products of few rows, with swapped operands, end long before the next tiles are there: they run
    beside what else the iteration computes, and are waited for at its end.
    """
    for product in found.products:
        product.asynchronous = UnitAttr()
    if all(product.atom.swaps_operands for product in found.products):
        found.loop.body.block.add_op(sched.WarpgroupWaitOp(0))
        return
    wait = sched.WarpgroupWaitOp(len(found.products))
    Rewriter.insert_op_after(wait, found.products[-1])
    at_start = InsertPoint.at_start(found.epilogue.body.block)
    Rewriter.insert_op(sched.WarpgroupWaitOp(0), at_start)


def delay_products(kernel: sched.KernelOp) -> None:
    """Issues the second products of a kernel's chains one iteration late."""
    for found in tuple(find_chained_loops(kernel)):
        # A stage is kept one iteration longer, so there must be another one.
        if found.ring.stage_count > 1:
            delay_product(found)


def suffices_late(kernel: sched.KernelOp, target: Target) -> bool:
    """Whether registers suffice when left operands live from one iteration to the next."""
    trial = kernel.clone()
    delay_products(trial)
    limit = register_limit(kernel.threads, target.registers_per_multiprocessor)
    if target.moves_registers:
        limit = most_registers(kernel, target)
    return registers_needed(trial) <= limit


def write_fresh(kernel: sched.KernelOp) -> None:
    """Lets products take the place of zeros that an accumulator was filled with for them alone."""
    for op in tuple(kernel.walk()):
        if not isinstance(op, sched.WarpgroupMmaOp) or len(op.accumulators) > 1 or op.ahead_of:
            continue
        fill = _last_use_before(op, op.accumulator)
        if isinstance(fill, sched.FillOp) and fill.value.value.data == 0.0:
            Rewriter.erase_op(fill)
            op.fresh = UnitAttr()


def _last_use_before(op: Operation, value: SSAValue) -> Operation | None:
    """The last operator of the same phase before ``op`` that touches a value."""
    before = op.prev_op
    while before is not None and not _touches(before, {value}):
        before = before.prev_op
    return before


class PipelineProductsPass(TargetPass, KernelPass):
    """Keeps the products of warp groups in flight over one iteration of the loop.

    If nothing else in a role's loop writes their operands or touches their sums, products become
    ``async``. Each iteration waits for the products of the iteration before, which keep their
    stages until then. The epilogue waits for the last ones.

    In a chain of two products, the second one is issued one iteration late (``ahead -1``), after
    the first one, so that the operators between the products run beside it. Operators that use the
    sums of the second product, or write its left operand, move to the end of the iteration, after a
    wait; the last product comes after the loop. A chain stays unchanged if ``arch`` has too few
    registers for the values that then live longer.

    A product becomes ``fresh`` if its accumulator is filled with zeros only for it.
    Pre-condition: ``--pipeline-loads``; run ``--lower-rings`` after it.
    """

    name = "pipeline-products"

    def run(self, kernel: sched.KernelOp) -> None:
        """Pipelines a kernel."""
        if is_lowered(kernel) or not sched.warpgroup_products(kernel):
            return
        with tiles_by_registers(kernel):
            for found in tuple(find_pipelined_loops(kernel)):
                pipeline_products(found)
            if suffices_late(kernel, self.target):
                delay_products(kernel)
            write_fresh(kernel)
