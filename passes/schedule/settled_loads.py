"""``--settled-loads``: kernels load what the one in front of them cannot write before they wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.sched.settled import follows_wait
from mugraph.passes.each import TargetPass
from mugraph.passes.schedule.programmatic_launch import loads_to_hoist, must_wait

FIRST_ITERATIONS = 1
"""Of whose tiles copies stand before a wait.

With two, three or all stages six norms with a linear layer take as long or up to 8 % longer
(``benchmarks/results/norm_linear_h200.md``): what the kernel in front computes comes behind these.
"""


def settled_inputs(kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp]) -> set[int]:
    """Analysis: the inputs that are complete before any block starts, in all launches."""
    return {
        index
        for index in range(kernel.input_count)
        if launches
        and not kernel.is_number(index)
        and all(each.starts_behind_writes_of(each.arguments[index]) for each in launches)
    }


@dataclass(frozen=True)
class Early:
    """Copies that need not stand behind a wait."""

    wait: sched.GridWaitOp
    copies: Sequence[Operation]


def early_copies(kernel: sched.KernelOp, settled: set[int]) -> list[Early]:
    """Choice: the first bulk copies behind a wait, of inputs that are settled."""
    constant, found = [*kernel.constant_inputs, *settled], list[Early]()
    for wait in [op for op in kernel.body.walk() if isinstance(op, sched.GridWaitOp)]:
        assert wait.parent is not None
        behind = [op for op in wait.parent.ops if wait.is_before_in_block(op)]
        if any(must_wait(op, constant) for op in behind):
            loads = loads_to_hoist(behind, constant)
            copies = [op for op in loads if isinstance(op, sched.BulkCopyOp)]
            first = [op for op in copies if (op.fixed_iteration or 0) < FIRST_ITERATIONS]
            found.append(Early(wait, first))
    return [each for each in found if each.copies]


def sooner_launches(
    launches: Sequence[sched.LaunchOp], fronts: Mapping[sched.KernelOp, Sequence[sched.LaunchOp]]
) -> list[sched.GridLaunchOp]:
    """Choice: where kernels in front of some launches, and of no others, start them too late.

    Behind a loop that loads nothing: all their loads are on their way in front of it, and threads
    have waited there.  None where one of the kernels has no such loop: its next kernel starts too
    late to gain by early loads.
    """
    before = [each.launch_in_front() for each in launches]
    found: list[sched.GridLaunchOp] = []
    for kernel in dict.fromkeys(each.resolve() for each in before if each is not None):
        phases = [op for op in kernel.body.block.ops if not isinstance(op, sched.RoleOp)]
        loops = [op for op in phases if isinstance(op, sched.ForloopOp)]
        alone = all(each in before for each in fronts[kernel])
        own = [op for op in phases if isinstance(op, sched.GridLaunchOp)]
        short = len(loops) == 1 and kernel.is_plain() and kernel.forloop_range == 1
        waits_first = all(map(follows_wait, loops))
        if not (alone and short and waits_first and len(own) == 1):
            return []
        found += own
    return found


def launch_behind_loads(launch: sched.GridLaunchOp) -> None:
    """Rewrite: lets the next kernel start in front of a kernel's loop."""
    block = launch.parent
    assert block is not None
    loop = next(op for op in block.ops if isinstance(op, sched.ForloopOp))
    if loop.is_before_in_block(launch):
        launch.detach()
        block.insert_op_before(launch, loop)


def load_before_wait(kernel: sched.KernelOp, early: Sequence[Early], settled: set[int]) -> None:
    """Rewrite: puts copies in front of waits, and says that nothing writes to what they read."""
    for each in early:
        block = each.wait.parent
        assert block is not None
        for copy in each.copies:
            copy.detach()
            block.insert_op_before(copy, each.wait)
    kernel.constant = integer_array(sorted(kernel.constant_inputs | settled))


class SettledLoadsPass(TargetPass):
    """Lets kernels load arguments of the function before they wait for the kernel in front of them.

    If that kernel waits for those before it, and only then lets this one start, all of them are
    complete when this one starts, and an argument that it does not write is too: a weight is on its
    way while the norm of the rows that it multiplies is computed, as one that is marked constant
    would be (``--programmatic-launch``).  Only bulk copies of the first iteration: those of
    what the kernel in front computes stand behind them.  The kernel in front then lets the next one
    start before its loop, not behind it; its loop must load nothing.
    Kernels that may have no blocks, launches that are shared, and tasks of persistent kernels stay
    as they are; so do all of targets without programmatic launches.
    Pre-condition: ``--programmatic-launch``; runs behind passes that join launches, and before
    ``--spread-blocks``.

    Before: ``sched.grid_wait``, ``sched.bulk_copy`` of rows, ``sched.bulk_copy`` of weights

    After: ``sched.bulk_copy`` of weights, ``sched.grid_wait``, ``sched.bulk_copy`` of rows
    """

    name = "settled-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        if not self.target.has_programmatic_launch or any(map(is_task, op.walk())):
            return
        found = sched.launches_by_kernel(op)
        for kernel, launches in found.items():
            settled = settled_inputs(kernel, launches) - kernel.constant_inputs
            early = early_copies(kernel, settled) if settled else []
            if early and (sooner := sooner_launches(launches, found)):
                load_before_wait(kernel, early, settled)
                for launch in sooner:
                    launch_behind_loads(launch)
