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
from mugraph.passes.options import member_named, require_natural, require_positive
from mugraph.passes.schedule_threadblock.build import draft_kernel
from mugraph.passes.schedule_threadblock.builder import Choices
from mugraph.passes.schedule_threadblock.channels import (
    Pipeline,
    Publish,
    note,
    publish_first,
    uses_channels,
)
from mugraph.passes.schedule_threadblock.choose import (
    Ring,
    Stages,
    asked_stages,
    choose_ring_stages,
    choose_stages,
    fewer_stages,
)
from mugraph.passes.schedule_threadblock.custom import check_operators, erase_unused_functions
from mugraph.passes.schedule_threadblock.levels import Levels, find_levels, loads_of_rings
from mugraph.passes.schedule_threadblock.plan import Objective
from mugraph.passes.schedule_threadblock.products import (
    Groups,
    choose_products,
    note_without_groups,
    spill_notes,
)
from mugraph.passes.schedule_threadblock.proposal import Proposal, propose
from mugraph.passes.schedule_threadblock.raster import ACROSS, DOWN, bytes_along, choose_raster
from mugraph.passes.schedule_threadblock.small_products import SmallM
from mugraph.passes.schedule_threadblock.write_back import with_direct_write_backs
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

__all__ = ["ScheduleThreadblockPass", "schedule_threadblock"]


def _bytes_loaded_an_iteration(loads: Iterable[tb.InputOp]) -> int:
    return sum(
        math.prod(shape_of(op.result.type)) * element_bytes_of(op.result.type)
        for op in loads
        if op.loop_dim >= 0
    )


PIPELINES = {"tma": Pipeline.CHANNELS, "cp_async": Pipeline.ASYNC_COPIES}
"""How loads run ahead, by what a plan says of them."""


def schedule_graph(
    graph: CustomizedOp,
    target: Target,
    symbol: str,
    objective: Objective = Objective.BARRIERS_FIRST,
    pipeline: Pipeline = Pipeline.AUTO,
    *,
    along_k: bool = True,
    asked: Stages = (),
    small_m: SmallM = SmallM.AUTO,
) -> sched.KernelOp:
    """The schedule of one graph, with the most stages wanted that fit the block's memory.

    Where ``pipeline`` allows it and bulk copies can bring all inputs, a role of its own loads.
    Where the schedule of fewest barriers does not fit, those that trade barriers for memory are
    tried before a stage is given up.  ``along_k``: whether warps may stand along k; ``asked``: the
    stages that a user wants; ``small_m``: how products of few rows are computed where channels
    bring their tiles.  What the graph's plan says counts in their place.
    """
    plan = graph.decided
    pipeline = PIPELINES[plan.loads] if plan.loads else pipeline
    asked = plan.stages or asked
    if plan.swap_ab is not None:
        small_m = SmallM.SWAP if plan.swap_ab else SmallM.MMA
    levels = find_levels(graph)
    obstacles = uses_channels(graph, levels, target, pipeline)
    if obstacles and pipeline is Pipeline.CHANNELS:
        print(f"--schedule-threadblock: note: {note(graph, obstacles)}", file=sys.stderr)
    scheduled = partial(
        _scheduled,
        graph,
        levels,
        target,
        symbol,
        objective,
        along_k=along_k,
        asked=asked,
        small_m=small_m,
    )
    if not obstacles:
        kernel = scheduled(channels=True)
        if kernel is not None:
            return kernel
    kernel = scheduled(channels=False)
    assert kernel is not None  # one stage is taken whether it fits or not
    return kernel


def _scheduled(
    graph: CustomizedOp,
    levels: Levels,
    target: Target,
    symbol: str,
    objective: Objective,
    *,
    channels: bool,
    along_k: bool,
    asked: Stages,
    small_m: SmallM,
) -> sched.KernelOp | None:
    """The schedule of one graph by one way of loading; ``None`` where a ring does not fit."""
    threads = graph.threads + (WARP if channels else 0)
    groups = None
    if channels and target.multiplies_in_warpgroups:
        groups = Groups(target, _bytes_loaded_an_iteration(levels.inputs), small_m)
    elif small_m is SmallM.SWAP and (sentence := note_without_groups(graph, target)) is not None:
        print(f"--schedule-threadblock: note: {sentence}", file=sys.stderr)
    products = choose_products(graph, levels, target, threads, groups=groups, along_k=along_k)
    warp_layouts, registers = products.warp_layouts, products.registers
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
    if asked:
        stages = asked_stages(asked, len(rings), graph.forloop_range)
    elif channels:
        alone = drafted(single)
        resident = alone.resident_blocks(alone.schedule_for(objective).peak)
        stages = choose_ring_stages(rings, resident, graph.forloop_range, target)
    else:
        # How many blocks share a multiprocessor is asked only where there are enough of them.
        single_stage_bytes = 0
        if blocks // target.multiprocessors > 1:
            single_stage_bytes = drafted(single).schedule_for(objective).peak
        tile_bytes = rings[0].stage_bytes
        chosen = choose_stages(tile_bytes, blocks, graph.forloop_range, single_stage_bytes, target)
        stages = (chosen,)
    while stages is not None and max(stages, default=1) > 1:
        candidate = drafted(stages)
        schedule = candidate.fitting_schedule(objective)
        if schedule is not None:
            return ordered(candidate.arranged(schedule), levels, target)
        stages = fewer_stages(rings, stages, candidate.excess_bytes())
    proposal = drafted(single)
    schedule = proposal.fitting_schedule(objective)
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
    objective: Objective = Objective.BARRIERS_FIRST,
    pipeline: Pipeline = Pipeline.AUTO,
    *,
    along_k: bool = True,
    stages: Stages = (),
    small_m: SmallM = SmallM.AUTO,
) -> Sequence[sched.KernelOp]:
    """Replaces every custom kernel of a function by the launch of its schedule."""
    kernels: list[sched.KernelOp] = []
    graphs = [op for op in function.walk() if isinstance(op, CustomizedOp)]
    for index, graph in enumerate(graphs):
        require_layouts(graph)
        separate_phases(graph)
        symbol = unused_symbol(module, f"{function.sym_name.data}_custom{index}", kernels)
        kernel = schedule_graph(
            graph,
            target,
            symbol,
            objective,
            pipeline,
            along_k=along_k,
            asked=stages,
            small_m=small_m,
        )
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


def _ring_count(kernel: sched.KernelOp) -> int:
    """How many numbers of stages a kernel has; all that its threads copy have one in common."""
    rings = {
        op.channel
        for op in kernel.body.walk()
        if isinstance(op, sched.BulkCopyOp)
        and isinstance(op.tile.owner, sched.TileOp)
        and op.tile.owner.loop_dim >= 0
    }
    return len(rings - {None}) or 1


@dataclass(frozen=True)
class ScheduleThreadblockPass(ModulePass):
    """Turns threadblock graphs into linear schedules: ``kn.customized`` into ``sched.kernel``.

    Puts barriers only where threads depend on what others did, as few as can be, and among
    schedules with so few takes one of least peak shared memory; pipelines the loop with the fewest
    stages that cover the latency of device memory, keeps accumulators in registers while they fit,
    and chooses the tensor-core instruction, the warps' arrangement and the vector width of every
    access; all of it stands in the result.  ``sched.schedule_certificate`` on the kernel records
    barriers and peak with their bounds.

    ``pipeline`` says how loads run ahead in the loop.  With ``channels`` a warp of its own loads by
    bulk copies (TMA) into rings that the block's other warps read; ``block`` grows by that warp.
    With ``async-copies`` all threads load by ``cp.async``.  ``auto`` takes channels where the
    target has bulk copies and these can bring every input: whole tiles, strides and rows of whole
    16 bytes, in a loop of several iterations.

    ``bytes-in-flight`` replaces the target's number of bytes that channels keep on their way to a
    multiprocessor, from which their stages follow.  ``stages=3`` gives all that moves with a loop
    so many stages, as far as they fit, and ``stages=2,3`` two to the first ring of each kernel and
    three to the others; a note says where there are more numbers than rings.  ``publish=first``
    announces a stage's bytes before its copies are issued, ``last`` after them.

    ``small-m`` says who computes products whose rows do not fill the 64 of an instruction of warp
    groups, where channels bring their tiles: single warps (``mma``), warp groups that swap both
    operands, so that the 64 are columns (``swap``, where it can be, else a note says why not), or
    whichever an estimate says is faster (``auto``); ``--explain-schedule`` prints it.

    What a kernel's plan says counts in place of these options: ``loads`` (``tma`` for ``channels``,
    ``cp_async`` for ``async-copies``), ``stages`` and ``swap_ab``.

    ``warps-along-k=false`` leaves all steps of a product along k to each warp.

    ``objective`` is ``barriers-first``; ``memory-first``, which takes the least peak that any
    number of barriers allows; ``no-more-memory``, which takes the fewest barriers that need no
    more memory than one barrier between successive depths would; or ``pareto``, which also prints,
    to stderr, every schedule that no other beats in both.  Pre-conditions: ``--resolve-layout``,
    and ``--decompose-threadblock`` where the graph has composite operators.
    """

    name = "schedule-threadblock"

    arch: str = DEFAULT_TARGET
    objective: str = Objective.BARRIERS_FIRST.value
    pipeline: str = Pipeline.AUTO.value
    warps_along_k: bool = True
    bytes_in_flight: int = 0
    stages: tuple[int, ...] = ()
    publish: str = Publish.LAST.value
    small_m: str = SmallM.AUTO.value

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedules every function of the module; kernels stand before the function."""
        target = target_named(self.arch).keeping(self.bytes_in_flight)
        require_positive(self.stages, f"--{self.name}: stages")
        require_natural(self.bytes_in_flight, f"--{self.name}: bytes-in-flight")
        publish = member_named(Publish, self.publish, f"--{self.name}: unknown publish")
        objective = member_named(Objective, self.objective, f"--{self.name}: unknown objective")
        pipeline = member_named(Pipeline, self.pipeline, f"--{self.name}: unknown pipeline")
        small_m = member_named(SmallM, self.small_m, f"--{self.name}: unknown small-m")
        check_operators(op)
        rings: list[int] = []
        for function in tuple(op.body.block.ops):
            if isinstance(function, FuncOp):
                kernels = schedule_threadblock(
                    op,
                    function,
                    target,
                    objective,
                    pipeline,
                    along_k=self.warps_along_k,
                    stages=self.stages,
                    small_m=small_m,
                )
                for kernel in kernels:
                    rings.append(_ring_count(kernel))
                    if publish is Publish.FIRST:
                        publish_first(kernel)
                    op.body.block.insert_op_before(kernel, function)
        most = max(rings, default=0)
        if 0 < most < len(self.stages):
            print(
                f"--{self.name}: note: of stages={','.join(map(str, self.stages))} only the first "
                f"{most} can be used, as many as rings",
                file=sys.stderr,
            )
        erase_unused_functions(op)
