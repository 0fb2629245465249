"""``--lower-threadblock``: threadblock graphs become the operators of linear schedules."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched, tb
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.constant import is_constant
from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.kn.extent import ExtentOp
from mugraph.dialects.kn.idle_iterations import iterations_that_count
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.linear_forms import set_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.mappings import MappingError
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import (
    bytes_of,
    layout_of,
    op_label,
    value_label,
)
from mugraph.passes.each import TargetPass
from mugraph.passes.options import refuse
from mugraph.passes.schedule.lower_threadblock.build import lower_kernel
from mugraph.passes.schedule.lower_threadblock.builder import Choices
from mugraph.passes.schedule.lower_threadblock.channels import uses_channels
from mugraph.passes.schedule.lower_threadblock.custom import check_operators, erase_unused_functions
from mugraph.passes.schedule.lower_threadblock.extents import (
    CallExtents,
    call_extents,
    end_kernel,
    hold_lengths,
)
from mugraph.passes.schedule.lower_threadblock.levels import Levels, find_levels
from mugraph.passes.schedule.lower_threadblock.products import (
    WarpgroupLimits,
    choose_products,
    no_room_to_promote,
    not_promoted,
    spill_notes,
    why_not_swapped,
)
from mugraph.passes.schedule.lower_threadblock.raster import (
    ACROSS,
    DOWN,
    bytes_along,
    choose_descending,
    choose_raster,
)
from mugraph.passes.schedule.lower_threadblock.write_back import (
    find_write_backs,
    write_back_directly,
)
from mugraph.passes.schedule.tile_values import name_values
from mugraph.passes.targets import Target

__all__ = ["LowerThreadblockPass", "lower_threadblock"]


def tile_bytes(load: tb.InputOp) -> int:
    """The bytes of an input's tile."""
    return bytes_of(load.result.type)


def bytes_loaded_an_iteration(loads: Iterable[tb.InputOp]) -> int:
    """What each iteration of the loop loads."""
    return sum(tile_bytes(op) for op in loads if op.loop_dim >= 0)


BY_THREADS = "write loads = cp_async, or leave loads free"
"""What fits where bulk copies cannot bring the tiles."""


def lower_graph(
    graph: CustomizedOp,
    target: Target,
    symbol: str,
    extents: CallExtents,
) -> tuple[sched.KernelOp, list[SSAValue]]:
    """The operators of one graph in order, without barriers, each tile of the loop in one stage.

    Where its plan allows it and bulk copies can bring all inputs, a role of its own loads.
    Returns the kernel, and the operands of a launch: its inputs, and the ``extents`` that it takes.
    """
    levels = find_levels(graph)
    channels = loads_through_channels(graph, levels, target)
    threads = graph.threads + (WARP if channels else 0)
    groups = None
    if channels and target.multiplies_in_warpgroups:
        groups = WarpgroupLimits(target, bytes_loaded_an_iteration(levels.inputs))
    products = choose_products(graph, levels, target, threads, groups=groups)
    if graph.decided.promote is None and (op := not_promoted(graph, products)) is not None:
        print(f"--lower-threadblock: note: {no_room_to_promote(op)}", file=sys.stderr)
        graph.decided = replace(graph.decided, promote=False)
        products = choose_products(graph, levels, target, threads, groups=groups)
    warp_layouts, registers = products.warp_layouts, products.registers
    if graph.decided.swap_ab:
        why = why_not_swapped(graph, warp_layouts, target)
        if why is not None:
            refuse(graph, "swap_ab", "lower-threadblock", why, "leave swap_ab free")
    for sentence in spill_notes(registers):
        print(f"--lower-threadblock: note: {sentence}", file=sys.stderr)
    choices = Choices(warp_layouts, registers.accumulators, registers.pieces, channels)
    kernel = lower_kernel(graph, levels, choices, symbol)
    if channels and (why := across_boxes(kernel)) is not None:
        if graph.decided.loads == "tma":
            refuse(graph, "loads", "lower-threadblock", why, BY_THREADS)
        graph.decided = replace(graph.decided, loads="cp_async")
        return lower_graph(graph, target, symbol, extents)
    domain = iterations_that_count(graph)
    if domain:
        kernel.domain = AffineSetAttr(set_of(domain, len(AXES) + 1))
    operands = end_kernel(kernel, graph, extents)
    if any(is_of_warpgroups(layout.atom) for layout in warp_layouts.values()):
        aligned = [alignment_of(result) for result in graph.results]
        for found in list(find_write_backs(kernel, lambda: aligned)):
            write_back_directly(found)
    cut = {cut.axis for cut in kernel.cuts_by_call}
    descending = choose_descending(graph, domain, target, cut)
    if descending is not None:
        kernel.descending = IntegerAttr(descending.columns, i64)
        kernel.planes = UnitAttr() if descending.of_planes else None
    elif channels:
        down, across = (bytes_along(levels.inputs, axis) for axis in (DOWN, ACROSS))
        rows = choose_raster(kernel.grid_dim, down, across, target.multiprocessors)
        if rows > 1:
            kernel.raster = IntegerAttr(rows, i64)
    name_values(kernel)
    return kernel, operands


def across_boxes(kernel: sched.KernelOp) -> str | None:
    """Why a product cannot be computed in pieces of tiles that bulk copies bring, box by box."""
    for op in kernel.walk():
        if isinstance(op, sched.MmaOp):
            try:
                op.matrices()
            except MappingError as error:
                return f"{op_label(op)} is computed in pieces, which cut across boxes: {error}"
    return None


def loads_through_channels(graph: CustomizedOp, levels: Levels, target: Target) -> bool:
    """Whether a role of its own loads; what the graph's plan says is kept, or refused."""
    obstacles = uses_channels(graph, levels, target)
    if not obstacles:
        tiles = sum(tile_bytes(op) for op in levels.inputs)
        if tiles > target.shared_memory_per_block:
            obstacles = [f"its tiles do not fit in the shared memory of a block of {target.name}"]
    if obstacles and graph.decided.loads == "tma":
        refuse(graph, "loads", "lower-threadblock", "; ".join(obstacles), BY_THREADS)
    return not obstacles


def require_layouts(graph: CustomizedOp) -> None:
    """Raises ``PassFailedException`` naming a tensor of the graph that has no layout yet."""
    tiles = [result for op in graph.body.block.ops for result in op.results]
    for value in (*graph.inputs, *graph.results, *tiles):
        if layout_of(value.type) is None:
            raise PassFailedException(
                f"--lower-threadblock: {value_label(value)} in {op_label(graph)} has no layout "
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


def _look_of(graph: CustomizedOp, extents: CallExtents) -> Hashable:
    """What decides a kernel's schedule, and what is made of that.

    It is alone where a call or memory says how far it goes, as its launch then has other operands.
    """
    if extents.values or graph.held_lengths:
        return graph
    tensors = tuple(
        (is_constant(value), alignment_of(value)) for value in (*graph.inputs, *graph.results)
    )
    return likeness_of(graph, besides=("workspace", CERTIFICATE)), tensors


def lower_threadblock(
    module: ModuleOp, function: FuncOp, target: Target
) -> Sequence[sched.KernelOp]:
    """Replaces every custom kernel of a function by the launch of its schedule.

    Those that are alike launch one, as the identical layers of a model do.
    """
    kernels: list[sched.KernelOp] = []
    symbols: dict[Hashable, str] = {}
    graphs = [op for op in function.walk() if isinstance(op, CustomizedOp)]
    extents = call_extents(function)
    for index, graph in enumerate(graphs):
        require_layouts(graph)
        separate_phases(graph)
        hold_lengths(graph, extents)
        look, operands = _look_of(graph, extents), [*graph.inputs]
        symbol = symbols.get(look)
        if symbol is None:
            symbol = unused_symbol(module, f"{function.sym_name.data}_custom{index}", kernels)
            kernel, operands = lower_graph(graph, target, symbol, extents)
            kernel.plan = graph.plan
            kernels.append(kernel)
            symbols[look] = symbol
        types = [value.type for value in graph.results]
        launch = sched.LaunchOp(symbol, operands, types)
        offsets = graph.workspace_offsets()
        if offsets is not None:
            launch.set_workspace_offsets(offsets)
        hints = [result.name_hint for result in graph.results]
        Rewriter.replace_op(graph, launch)
        for result, hint in zip(launch.results, hints, strict=True):
            result.name_hint = hint
    for op in tuple(function.walk()):
        if isinstance(op, ExtentOp) and not op.result.uses:
            Rewriter.erase_op(op)  # kernels have its number
    return kernels


class LowerThreadblockPass(TargetPass):
    """Turns threadblock graphs into linear schedules: ``kn.customized`` into ``sched.kernel``.

    Every tile has a buffer in shared memory; accumulators are kept in registers while they fit.
    Chooses the instruction of each product and how warps share it, the vector width of every
    access, and who loads; all of it stands in the result.  Barriers and the stages of what the loop
    loads are not chosen yet: ``--pipeline-loads`` does that, when it is known what is in memory.

    What a kernel's plan says is kept (``kn.customized ... plan <loads = tma>``).  ``loads`` says
    who loads.  With ``tma`` a warp of its own loads by bulk copies into rings that the block's
    other warps read; ``block`` grows by that warp.  With ``cp_async`` all threads load.  A plan
    that leaves it free gets ``tma`` where the target has bulk copies and these can bring every
    input: whole tiles, strides and rows of whole 16 bytes, in a loop of several iterations, and one
    tile of each fits in the block's memory.

    ``swap_ab`` says who computes products whose rows do not fill the 64 of an instruction of warp
    groups, where a ring brings their tiles: single warps (``false``), warp groups that swap both
    operands, so that the 64 are columns (``true``), or, where it is free, whichever an estimate
    says is faster; ``--explain-schedule`` prints it.

    A part that is written and cannot be is an error that says what fits.

    Kernels that differ in names alone, of tensors that are constant and aligned alike, become one
    schedule, which is launched several times; those whose extents a call says do not.

    Pre-conditions: ``--resolve-layout``, and ``--decompose-threadblock`` where the graph has
    composite operators.
    """

    name = "lower-threadblock"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedules every function of the module; kernels stand before the function."""
        target = self.target
        check_operators(op)
        for function in tuple(op.body.block.ops):
            if isinstance(function, FuncOp):
                kernels = lower_threadblock(op, function, target)
                for kernel in kernels:
                    op.body.block.insert_op_before(kernel, function)
        erase_unused_functions(op)
