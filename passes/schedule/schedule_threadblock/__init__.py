"""``--schedule-threadblock``: threadblock graphs become linear schedules."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    layout_of,
    op_label,
    shape_of,
    value_label,
)
from mugraph.passes.options import refuse
from mugraph.passes.schedule.schedule_threadblock.build import draft_kernel
from mugraph.passes.schedule.schedule_threadblock.builder import Choices
from mugraph.passes.schedule.schedule_threadblock.channels import (
    uses_channels,
)
from mugraph.passes.schedule.schedule_threadblock.choose import (
    Ring,
    Stages,
    asked_stages,
    choose_ring_stages,
    choose_stages,
    fewer_stages,
)
from mugraph.passes.schedule.schedule_threadblock.custom import (
    check_operators,
    erase_unused_functions,
)
from mugraph.passes.schedule.schedule_threadblock.levels import Levels, find_levels, loads_of_rings
from mugraph.passes.schedule.schedule_threadblock.products import (
    WarpgroupLimits,
    choose_products,
    spill_notes,
    why_not_swapped,
)
from mugraph.passes.schedule.schedule_threadblock.proposal import Proposal, propose
from mugraph.passes.schedule.schedule_threadblock.raster import (
    ACROSS,
    DOWN,
    bytes_along,
    choose_raster,
)
from mugraph.passes.schedule.schedule_threadblock.write_back import with_direct_write_backs
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

__all__ = ["ScheduleThreadblockPass", "schedule_threadblock"]


def _bytes_loaded_an_iteration(loads: Iterable[tb.InputOp]) -> int:
    return sum(
        math.prod(shape_of(op.result.type)) * element_bytes_of(op.result.type)
        for op in loads
        if op.loop_dim >= 0
    )


BY_THREADS = "write loads = cp_async, or leave loads free"
"""What fits where bulk copies cannot bring the tiles."""


def schedule_graph(
    graph: CustomizedOp,
    target: Target,
    symbol: str,
    *,
    along_k: bool = True,
) -> sched.KernelOp:
    """The schedule of one graph, with the most stages wanted that fit the block's memory.

    Where its plan allows it and bulk copies can bring all inputs, a role of its own loads.
    Where the schedule of fewest barriers does not fit, those that trade barriers for memory are
    tried before a stage is given up.  ``along_k``: whether warps may stand along k.
    """
    levels = find_levels(graph)
    obstacles = uses_channels(graph, levels, target)
    if obstacles and graph.decided.loads == "tma":
        refuse(graph, "loads", "schedule-threadblock", "; ".join(obstacles), BY_THREADS)
    scheduled = partial(
        _scheduled,
        graph,
        levels,
        target,
        symbol,
        along_k=along_k,
    )
    if not obstacles:
        kernel = scheduled(channels=True)
        if kernel is not None:
            return kernel
        if graph.decided.loads == "tma":
            why = f"its tiles do not fit in the shared memory of a block of {target.name}"
            refuse(graph, "loads", "schedule-threadblock", why, "cut it into smaller tiles")
    kernel = scheduled(channels=False)
    assert kernel is not None  # one stage is taken whether it fits or not
    return kernel


def _scheduled(
    graph: CustomizedOp,
    levels: Levels,
    target: Target,
    symbol: str,
    *,
    channels: bool,
    along_k: bool,
) -> sched.KernelOp | None:
    """The schedule of one graph by one way of loading; ``None`` where a ring does not fit."""
    threads = graph.threads + (WARP if channels else 0)
    groups = None
    if channels and target.multiplies_in_warpgroups:
        groups = WarpgroupLimits(target, _bytes_loaded_an_iteration(levels.inputs))
    products = choose_products(graph, levels, target, threads, groups=groups, along_k=along_k)
    warp_layouts, registers = products.warp_layouts, products.registers
    if graph.decided.swap_ab:
        why = why_not_swapped(graph, warp_layouts, target)
        if why is not None:
            refuse(graph, "swap_ab", "schedule-threadblock", why, "leave swap_ab free")
    for sentence in spill_notes(registers):
        print(f"--schedule-threadblock: note: {sentence}", file=sys.stderr)

    atoms = [layout.atom for layout in warp_layouts.values()]
    by_groups = any(is_of_warpgroups(atom) for atom in atoms)
    # Products of few rows end long before the next tile is there, and keep no stage from it.
    stays_behind = any(is_of_warpgroups(atom) and not atom.swaps_operands for atom in atoms)

    @cache
    def drafted(stages: Stages) -> Proposal:
        choices = Choices(stages, warp_layouts, registers.accumulators, registers.pieces, channels)
        draft = draft_kernel(graph, levels, choices, symbol)
        return propose(with_direct_write_backs(draft) if by_groups else draft, target)

    kept = 1 if stays_behind else 0
    loads_of = loads_of_rings(levels) if channels else [levels.inputs]
    rings = [Ring(_bytes_loaded_an_iteration(loads), kept) for loads in loads_of]
    single, blocks = (1,) * len(rings), math.prod(graph.grid_dim)
    asked = graph.decided.stages
    if asked is not None:
        stages = asked_stages(asked, len(rings), graph.forloop_range)
    elif channels:
        alone = drafted(single)
        resident = alone.resident_blocks(alone.least_barriers.peak)
        stages = choose_ring_stages(rings, resident, graph.forloop_range, target)
    else:
        # How many blocks share a multiprocessor is asked only where there are enough of them.
        single_stage_bytes = 0
        if blocks // target.multiprocessors > 1:
            single_stage_bytes = drafted(single).least_barriers.peak
        tile_bytes = rings[0].stage_bytes
        chosen = choose_stages(tile_bytes, blocks, graph.forloop_range, single_stage_bytes, target)
        stages = (chosen,)
    while stages is not None and max(stages, default=1) > 1:
        candidate = drafted(stages)
        schedule = candidate.fitting_schedule()
        if schedule is not None:
            return ordered(candidate.arranged(schedule), levels, target)
        stages = fewer_stages(rings, stages, candidate.excess_bytes())
    proposal = drafted(single)
    schedule = proposal.fitting_schedule()
    if schedule is None and channels:
        return None
    return ordered(proposal.arranged(schedule or proposal.smallest_schedule()), levels, target)


def ordered(kernel: sched.KernelOp, levels: Levels, target: Target) -> sched.KernelOp:
    """The kernel, with the order in which its blocks start where channels feed them."""
    if roles_of(kernel):
        down, across = (bytes_along(levels.inputs, axis) for axis in (DOWN, ACROSS))
        rows = choose_raster(kernel.grid_dim, down, across, target.multiprocessors)
        if rows > 1:
            kernel.raster = IntegerAttr(rows, i64)
    return kernel


def require_layouts(graph: CustomizedOp) -> None:
    """Raises ``PassFailedException`` naming a tensor of the graph that has no layout yet."""
    tiles = [result for op in graph.body.block.ops for result in op.results]
    for value in (*graph.inputs, *graph.results, *tiles):
        if layout_of(value.type) is None:
            raise PassFailedException(
                f"--schedule-threadblock: {value_label(value)} in {op_label(graph)} has no layout "
                "yet; run --resolve-layout, after the passes that make tiles"
            )


def unused_symbol(module: ModuleOp, wish: str, kernels: Sequence[sched.KernelOp]) -> str:
    """``wish``, or ``wish`` with a number, such that nothing in the module has that name."""
    taken = {kernel.sym_name.data for kernel in kernels}
    for op in module.body.block.ops:
        name = op.properties.get("sym_name")
        if isinstance(name, StringAttr):
            taken.add(name.data)
    symbol, count = wish, 0
    while symbol in taken:
        count += 1
        symbol = f"{wish}_{count}"
    return symbol


def schedule_threadblock(
    module: ModuleOp,
    function: FuncOp,
    target: Target,
    *,
    along_k: bool = True,
) -> Sequence[sched.KernelOp]:
    """Replaces every custom kernel of a function by the launch of its schedule."""
    kernels: list[sched.KernelOp] = []
    graphs = [op for op in function.walk() if isinstance(op, CustomizedOp)]
    for index, graph in enumerate(graphs):
        require_layouts(graph)
        separate_phases(graph)
        symbol = unused_symbol(module, f"{function.sym_name.data}_custom{index}", kernels)
        kernel = schedule_graph(graph, target, symbol, along_k=along_k)
        kernel.plan = graph.plan
        kernels.append(kernel)
        launch = sched.LaunchOp(symbol, graph.inputs, [value.type for value in graph.results])
        offsets = graph.workspace_offsets()
        if offsets is not None:
            launch.set_workspace_offsets(offsets)
        hints = [result.name_hint for result in graph.results]
        Rewriter.replace_op(graph, launch)
        for result, hint in zip(launch.results, hints, strict=True):
            result.name_hint = hint
    return kernels


@dataclass(frozen=True)
class ScheduleThreadblockPass(ModulePass):
    """Turns threadblock graphs into linear schedules: ``kn.customized`` into ``sched.kernel``.

    Puts barriers only where threads depend on what others did, as few as can be, and among
    schedules with so few takes one of least peak shared memory; pipelines the loop with the fewest
    stages that cover the latency of device memory, keeps accumulators in registers while they fit,
    and chooses the tensor-core instruction, the warps' arrangement and the vector width of every
    access; all of it stands in the result.  ``sched.schedule_certificate`` on the kernel records
    barriers and peak with their bounds.

    What a kernel's plan says is kept (``kn.customized ... plan <loads = tma>``).  ``loads`` says
    how loads run ahead in the loop.  With ``tma`` a warp of its own loads by bulk copies into rings
    that the block's other warps read; ``block`` grows by that warp.  With ``cp_async`` all threads
    load.  A plan that leaves it free gets ``tma`` where the target has bulk copies and these can
    bring every input: whole tiles, strides and rows of whole 16 bytes, in a loop of several
    iterations.  ``stages = [3]`` gives all that moves with the loop so many stages, and
    ``stages = [2, 3]`` two to the first ring and three to the others.

    ``swap_ab`` says who computes products whose rows do not fill the 64 of an instruction of warp
    groups, where a ring brings their tiles: single warps (``false``), warp groups that swap both
    operands, so that the 64 are columns (``true``), or, where it is free, whichever an estimate
    says is faster; ``--explain-schedule`` prints it.

    A part that is written and cannot be is an error that says what fits.

    ``warps-along-k=false`` leaves all steps of a product along k to each warp.  Pre-conditions:
    ``--resolve-layout``, and ``--decompose-threadblock`` where the graph has composite operators.
    """

    name = "schedule-threadblock"

    arch: str = DEFAULT_TARGET
    warps_along_k: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedules every function of the module; kernels stand before the function."""
        target = target_named(self.arch)
        check_operators(op)
        for function in tuple(op.body.block.ops):
            if isinstance(function, FuncOp):
                kernels = schedule_threadblock(op, function, target, along_k=self.warps_along_k)
                for kernel in kernels:
                    op.body.block.insert_op_before(kernel, function)
        erase_unused_functions(op)
