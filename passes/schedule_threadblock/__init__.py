"""``--schedule-threadblock``: threadblock graphs become linear schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, tb
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.kn import CustomizedOp, accumulates
from mugraph.dialects.partition import choose_partition
from mugraph.dialects.sched.types import accumulators_per_thread
from mugraph.dialects.tb.layouts import partitioned_operand
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    shape_of,
    value_label,
)
from mugraph.passes.schedule_threadblock.build import draft_kernel
from mugraph.passes.schedule_threadblock.builder import Choices
from mugraph.passes.schedule_threadblock.choose import (
    ACCUMULATOR_REGISTERS,
    WarpLayout,
    choose_atom,
    choose_stages,
    choose_warp_layout,
)
from mugraph.passes.schedule_threadblock.levels import Levels, find_levels
from mugraph.passes.schedule_threadblock.plan import Objective, choose_schedule
from mugraph.passes.schedule_threadblock.proposal import Proposal, propose
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

__all__ = ["ScheduleThreadblockPass", "schedule_threadblock"]


def choose_warp_layouts(graph: CustomizedOp) -> dict[tb.MatmulOp, WarpLayout]:
    """How the block's warps share each matrix product."""
    layouts: dict[tb.MatmulOp, WarpLayout] = {}
    for op in graph.body.block.ops:
        if not isinstance(op, tb.MatmulOp):
            continue
        element = element_type_name(element_type_of(op.lhs.type))
        atom = choose_atom(element, graph.threads, ieee=op.is_ieee)
        *_, rows, columns = shape_of(op.result.type)
        depth = shape_of(op.lhs.type)[-1]
        layouts[op] = choose_warp_layout(rows, columns, depth, atom, graph.threads)
    return layouts


def accumulator_registers(
    op: Operation, graph: CustomizedOp, warp_layouts: dict[tb.MatmulOp, WarpLayout]
) -> int | None:
    """fp32 registers a thread needs to keep an accumulator; ``None`` where it cannot keep it.

    The sums of a reduction are shared between lanes and stay in shared memory, and so do what is
    not a plain sum: maxima and rescaled sums.
    """
    if isinstance(op, tb.MatmulOp):
        *_, rows, columns = shape_of(op.result.type)
        return accumulators_per_thread(warp_layouts[op].tiled_mma, rows, columns)
    if isinstance(op, tb.AnyReductionOp | tb.ForloopAccumRescaleOp):
        return None
    if isinstance(op, tb.ForloopAccumOp) and op.kind.data is tb.AccumulatorKind.MAX:
        return None
    shape = shape_of(op.results[0].type)
    operands = [partitioned_operand(value) for value in (op.results[0], *op.operands)]
    return choose_partition(shape, operands, graph.threads).values_per_thread(shape)


def choose_register_accumulators(
    graph: CustomizedOp, levels: Levels, warp_layouts: dict[tb.MatmulOp, WarpLayout]
) -> frozenset[Operation]:
    """Accumulators to keep in registers: in order, while their sum stays within 192 a thread."""
    chosen: list[Operation] = []
    used = 0
    for op in (op for level in levels.body for op in level if accumulates(op)):
        needed = accumulator_registers(op, graph, warp_layouts)
        if needed is not None and used + needed <= ACCUMULATOR_REGISTERS:
            chosen.append(op)
            used += needed
    return frozenset(chosen)


def _bytes_loaded_an_iteration(levels: Levels) -> int:
    return sum(
        math.prod(shape_of(op.result.type)) * element_bytes_of(op.result.type)
        for op in levels.inputs
        if op.loop_dim >= 0
    )


def schedule_graph(
    graph: CustomizedOp,
    target: Target,
    symbol: str,
    objective: Objective = Objective.BARRIERS_FIRST,
) -> sched.KernelOp:
    """The schedule of one graph, with the most stages wanted that fit the block's memory.

    Where the schedule of fewest barriers does not fit, those that trade barriers for memory are
    tried before a stage is given up.
    """
    levels = find_levels(graph)
    warp_layouts = choose_warp_layouts(graph)
    registers = choose_register_accumulators(graph, levels, warp_layouts)

    def drafted(stages: int) -> Proposal:
        choices = Choices(stages, warp_layouts, registers)
        return propose(draft_kernel(graph, levels, choices, symbol), target)

    proposal = drafted(1)
    stages = choose_stages(
        _bytes_loaded_an_iteration(levels),
        math.prod(graph.grid_dim),
        graph.forloop_range,
        choose_schedule(proposal.graph, objective).peak,
        target,
    )
    for count in range(stages, 1, -1):
        candidate = drafted(count)
        schedule = candidate.fitting_schedule(objective)
        if schedule is not None:
            return candidate.arranged(schedule)
    schedule = proposal.fitting_schedule(objective) or proposal.smallest_schedule()
    return proposal.arranged(schedule)


def objective_named(name: str) -> Objective:
    """The objective of that name; raises ``PassFailedException`` listing the known ones."""
    for objective in Objective:
        if objective.value == name:
            return objective
    known = ", ".join(objective.value for objective in Objective)
    raise PassFailedException(
        f"--schedule-threadblock: unknown objective '{name}'; expected one of {known}"
    )


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
) -> Sequence[sched.KernelOp]:
    """Replaces every custom kernel of a function by the launch of its schedule."""
    kernels: list[sched.KernelOp] = []
    graphs = [op for op in function.walk() if isinstance(op, CustomizedOp)]
    for index, graph in enumerate(graphs):
        require_layouts(graph)
        symbol = unused_symbol(module, f"{function.sym_name.data}_custom{index}", kernels)
        kernel = schedule_graph(graph, target, symbol, objective)
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

    ``objective`` is ``barriers-first``; ``memory-first``, which takes the least peak that any
    number of barriers allows; ``no-more-memory``, which takes the fewest barriers that need no
    more memory than one barrier between successive depths would; or ``pareto``, which also prints,
    to stderr, every schedule that no other beats in both.  Pre-conditions: ``--resolve-layout``,
    and ``--decompose-threadblock`` where the graph has composite operators.
    """

    name = "schedule-threadblock"

    arch: str = DEFAULT_TARGET
    objective: str = Objective.BARRIERS_FIRST.value

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedules every function of the module; kernels stand before the function."""
        target = target_named(self.arch)
        objective = objective_named(self.objective)
        for function in tuple(op.body.block.ops):
            if isinstance(function, FuncOp):
                kernels = schedule_threadblock(op, function, target, objective)
                for kernel in kernels:
                    op.body.block.insert_op_before(kernel, function)
