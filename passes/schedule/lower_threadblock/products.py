"""Choices about products and sums: how warps share them, and what of them registers hold."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute.atoms import MmaAtom, swapped_atoms
from mugraph.dialects.cute.chaining import accumulator_is_operand
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.kn import CustomizedOp, accumulates
from mugraph.dialects.partition import choose_partition
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import GROUP_ROWS, VECTOR_BYTES
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tb.layouts import partitioned_operand
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    innermost_of,
    leading_strides,
    op_label,
    resolved_layout_of,
    shape_of,
)
from mugraph.passes.costs.kept_sums import (
    Pieces,
    RegisterWork,
    choose_kept,
    choose_pieces,
    register_limit,
)
from mugraph.passes.costs.products import MOST_SWAPPED_ROWS, RUNS_OF_LANES
from mugraph.passes.costs.warp_layouts import WarpLayout, choose_atom, choose_warp_layout
from mugraph.passes.costs.work import WORKING_REGISTERS
from mugraph.passes.schedule.analysis.registers import vector_registers
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.lower_threadblock.levels import Levels
from mugraph.passes.schedule.lower_threadblock.small_products import (
    SmallProduct,
    choose_small_layout,
    is_small,
    swap_obstacle,
)
from mugraph.passes.schedule.lower_threadblock.warpgroups import (
    reads_descriptors,
    warpgroup_layout_of,
)
from mugraph.passes.schedule.pipeline_loads.stages import Ring, choose_ring_stages
from mugraph.passes.targets import Target


def choose_layout_of(
    op: tb.MatmulOp, threads: int, iterations: int, target: Target, *, along_k: bool = True
) -> WarpLayout:
    """How a block's warps share a product whose partial sums are added once in ``iterations``."""
    atom = choose_atom(operand_names(op.lhs, op.rhs), threads, target, ieee=op.is_ieee)
    *_, rows, columns = shape_of(op.result.type)
    return choose_warp_layout(
        rows,
        columns,
        shape_of(op.lhs.type)[-1],
        atom,
        threads,
        target,
        element_bytes=element_bytes_of(op.lhs.type),
        iterations=iterations,
        along_k=along_k,
    )


def sums_once(op: tb.MatmulOp) -> bool:
    """Whether partial sums can wait until after the loop: nothing is done to each product."""
    return accumulates(op) and not tb.epilogue_of(op).functions


def is_scaled_in_turn(op: tb.MatmulOp) -> bool:
    """Whether each product is scaled before it is added up, as the sums of groups of k are.

    Its threads do so where each has its sums to itself.
    """
    users = [use.operation for use in op.result.uses]
    return bool(users) and all(isinstance(user, tb.MulOp) and accumulates(user) for user in users)


def is_linear(epilogue: Epilogue) -> bool:
    """Whether an epilogue may be applied to partial sums, which are added up behind it."""
    return all(frozenset({0}) in function.linear_in for function in epilogue.functions)


@dataclass(frozen=True)
class WarpgroupLimits:
    """What warp groups of a target may compute: all that they can.

    ``tile_bytes`` are what an iteration of the graph's loop loads.
    """

    target: Target
    tile_bytes: int


def choose_warp_layouts(
    graph: CustomizedOp,
    target: Target,
    *,
    groups: WarpgroupLimits | None = None,
) -> dict[tb.MatmulOp, WarpLayout]:
    """How the block's warps share each matrix product, if all sums can stay in registers.

    ``groups``: what warp groups compute.  Products of which one is made of the other have all warps
    along m where that leaves none idle: rows then lie in one warp each, and what stands
    between them can stay in registers.
    """
    layouts: dict[tb.MatmulOp, WarpLayout] = {}
    chained = chained_products(graph)
    for op in graph.body.block.ops:
        if not isinstance(op, tb.MatmulOp):
            continue
        if op in chained and (along_m := layout_along_m(op, graph.threads, target)) is not None:
            layouts[op] = along_m
            continue
        by_groups = None
        # A plan that says so decides over products of 64 rows, too, which need no swap.
        is_told = graph.decided.swap_ab is not None and is_small(shape_of(op.result.type)[-2])
        if groups is not None and not is_told:
            by_groups = warpgroup_layout_of(op, graph.threads)
        iterations = graph.forloop_range if sums_once(op) else 1
        if swapped := layout_of_few_rows(op, graph.threads, target, chained=op in chained):
            layouts[op] = swapped
            continue
        if op.slices > 1:
            # Each pair of matrices has warps of its own.
            of_one = choose_layout_of(op, graph.threads // op.slices, 1, target, along_k=False)
            layouts[op] = replace(of_one, k=op.slices)
            continue
        layouts[op] = by_groups or choose_layout_of(
            op, graph.threads, iterations, target, along_k=not is_scaled_in_turn(op)
        )
        if by_groups is None and groups is not None:
            layouts[op] = _of_few_rows(op, layouts[op], graph, groups)
    return layouts


def layout_of_few_rows(
    op: tb.MatmulOp, threads: int, target: Target, *, chained: bool
) -> WarpLayout | None:
    """How single warps share a product of few rows with swapped operands; ``None`` where not.

    The columns are then the 16 rows of an instruction.  Of numbers of few bits lanes read runs of
    16 bytes along k, which both matrices must have, of products that are sliced, or of a chain
    (``chained``), as scores are, if all warps share the columns evenly; others have warps along k,
    where columns are few for so many warps (:data:`MOST_SWAPPED_ROWS`).  Lines of bytes along n are
    read where the right matrix has them.
    """
    *_, rows, columns = shape_of(op.result.type)
    source = stored_source(op.rhs)
    is_narrow = element_bytes_of(source.type) < element_bytes_of(op.rhs.type)
    if op.is_ieee or rows > MOST_SWAPPED_ROWS or not is_narrow:
        return None
    atoms = swapped_atoms(choose_atom(operand_names(op.lhs, op.rhs), threads, target, ieee=False))
    for atom in atoms:
        warps = threads // atom.threads // op.slices
        is_even = op.slices > 1 or (chained and columns % (warps * atom.shape_mnk[1]) == 0)
        if (is_even or not atom.reads_runs) and _can_read(op, source, atom):
            along_n = max(min(warps, math.ceil(columns / atom.shape_mnk[1])), 1)
            return WarpLayout(atom, 1, along_n, op.slices)
    return None


def _can_read(op: tb.MatmulOp, source: SSAValue, atom: MmaAtom) -> bool:
    """Whether matrices lie as warps that swap operands read them, the right one as it is stored."""
    columns, depth = shape_of(op.result.type)[-1], shape_of(op.lhs.type)[-1]
    if atom.reads_runs:
        runs = _has_runs(op.lhs, -1) and _has_runs(op.rhs, -2) and _has_runs(source, -2)
        return runs and depth % RUNS_OF_LANES == 0
    whole = columns % atom.shape_mnk[1] == depth % atom.shape_mnk[2] == 0
    lines = element_bytes_of(source.type) == 1 and _has_runs(op.rhs, -1) and _has_runs(source, -1)
    return whole and lines


def stored_source(value: SSAValue) -> SSAValue:
    """The tile that a value is a function of, element by element: what a product can load."""
    while isinstance(value.owner, tb.UnaryOp):
        value = value.owner.input
    return value


def _has_runs(value: SSAValue, dim: int) -> bool:
    """Whether neighbours along a dimension lie side by side, in rows at multiples of 16 bytes."""
    shape, size = shape_of(value.type), element_bytes_of(value.type)
    if innermost_of(value) != len(shape) + dim:
        return False
    strides = leading_strides(resolved_layout_of(value))
    return all(
        stride * size % VECTOR_BYTES == 0
        for at, (stride, extent) in enumerate(zip(strides, shape, strict=True))
        if at != len(shape) + dim and extent > 1
    )


def why_not_swapped(
    graph: CustomizedOp, layouts: Mapping[tb.MatmulOp, WarpLayout], target: Target
) -> str | None:
    """Why no warp groups swap the operands of a product of few rows, if one is left."""
    products = [op for op in graph.body.block.ops if isinstance(op, tb.MatmulOp)]
    small = [op for op in products if is_small(shape_of(op.result.type)[-2])]
    if not target.multiplies_in_warpgroups:
        return f"no warp groups multiply on {target.arch}"
    if not small:
        return (
            f"none of its products has {GROUP_ROWS} rows or fewer, or rows that are no multiple "
            f"of {GROUP_ROWS}"
        )
    for op in small:
        if op not in layouts or not layouts[op].atom.swaps_operands:
            obstacle = _obstacle_to_swap(op, graph)
            reason = "its rows must lie in one warp each" if obstacle is None else obstacle.reason
            return f"{op_label(op)}: {reason}"
    return None


def _obstacle_to_swap(op: tb.MatmulOp, graph: CustomizedOp) -> Obstacle | None:
    *_, rows, columns = shape_of(op.result.type)
    depth, types = shape_of(op.lhs.type)[-1], operand_names(op.lhs, op.rhs)
    obstacle = swap_obstacle(rows, columns, depth, types, graph.threads)
    if obstacle is None and not reads_descriptors(op):
        return Obstacle("its operands do not come by bulk copies as warp groups read them")
    return obstacle


def _of_few_rows(
    op: tb.MatmulOp, by_warps: WarpLayout, graph: CustomizedOp, groups: WarpgroupLimits
) -> WarpLayout:
    """The layout of a product by single warps, or by warp groups with swapped operands."""
    if _obstacle_to_swap(op, graph) is not None:
        return by_warps
    *_, rows, columns = shape_of(op.result.type)
    depth, types = shape_of(op.lhs.type)[-1], operand_names(op.lhs, op.rhs)
    product = SmallProduct(
        rows,
        columns,
        depth,
        types,
        element_bytes_of(op.lhs.type),
        graph.threads,
        graph.forloop_range,
        groups.tile_bytes,
        choose_ring_stages((Ring(groups.tile_bytes),), 1, graph.forloop_range, groups.target)[0],
        math.prod(graph.grid_dim),
        sums_once(op),
    )
    return choose_small_layout(product, by_warps, groups.target, graph.decided.swap_ab)


def chained_products(graph: CustomizedOp) -> set[tb.MatmulOp]:
    """Products whose result a left operand is computed from, and those that multiply this one.

    Likewise those that meet one of these in an element-wise operator: threads then have the values
    of both.
    """
    made_of: dict[SSAValue, set[tb.MatmulOp]] = {}
    chained: set[tb.MatmulOp] = set()
    meeting: list[set[tb.MatmulOp]] = []
    for op in graph.body.block.ops:
        sources: set[tb.MatmulOp] = set()
        if not isinstance(op, tb.MatmulOp):
            sources = {product for value in op.operands for product in made_of.get(value, ())}
        if isinstance(op, tb.MatmulOp):
            before = made_of.get(op.lhs, set())
            if before:
                chained |= {op, *before}
            sources = {op}
        if isinstance(op, tb.ElementwiseOp):
            meeting.append(sources)
        for result in op.results:
            made_of[result] = sources
    # What follows meets more products than what comes before it.
    for products in meeting:
        if not chained.isdisjoint(products):
            chained |= products
    return chained


def layout_along_m(op: tb.MatmulOp, threads: int, target: Target) -> WarpLayout | None:
    """All warps of a block along m; ``None`` where some would be idle, or a row is not a warp's."""
    types = operand_names(op.lhs, op.rhs)
    atom = choose_atom(types, threads, target, ieee=op.is_ieee)
    if atom.is_scalar or not accumulator_is_operand(atom, atom) or types[0] != atom.a_type:
        return None
    warps = threads // atom.threads
    rows = shape_of(op.result.type)[-2]
    return WarpLayout(atom, warps, 1) if rows % (warps * atom.shape_mnk[0]) == 0 else None


def adds_up_plainly(op: Operation) -> bool:
    """Whether an operator accumulates sums that a thread can have to itself.

    The sums of a reduction are shared between lanes and stay in shared memory, and so does what is
    not a plain sum: maxima, rescaled sums and carried states.
    """
    if isinstance(op, tb.AccumulatorOp):
        return op.adds
    return accumulates(op) and not isinstance(op, tb.AnyReductionOp)


def is_promoted(op: tb.MatmulOp, layout: WarpLayout, decided: Plan) -> bool:
    """Whether the sums of each iteration are added to those of the loop in f32, by threads.

    So are those of f8 by warp groups, whose instruction adds with few bits, unless a plan says no.
    """
    return layout.atom.sum_bits is not None and accumulates(op) and decided.promote is not False


def product_work(op: tb.MatmulOp, layout: WarpLayout, *, promoted: bool = False) -> RegisterWork:
    """The registers of a matrix product."""
    *_, rows, columns = shape_of(op.result.type)
    tiles = layout.tiles_of_a_warp(rows, columns)
    return RegisterWork(
        tiles.values,
        tiles.operands,
        keepable=accumulates(op) and (layout.k == 1 or is_linear(tb.epilogue_of(op))),
        transformed=promoted or bool(tb.epilogue_of(op).functions),
        is_product=True,
    )


def work_of(
    op: Operation, graph: CustomizedOp, warp_layouts: dict[tb.MatmulOp, WarpLayout]
) -> RegisterWork:
    """The registers of an operator's work."""
    if isinstance(op, tb.MatmulOp):
        layout = warp_layouts[op]
        return product_work(op, layout, promoted=is_promoted(op, layout, graph.decided))
    if not adds_up_plainly(op) or graph.forloop_range == 1:
        return RegisterWork(0)
    shape = shape_of(op.results[0].type)
    operands = [partitioned_operand(value) for value in (op.results[0], *op.operands)]
    partition = choose_partition(shape, operands, graph.threads)
    sizes = [element_bytes_of(value.type) for value in op.operands]
    return RegisterWork(
        partition.values_per_thread(shape), vector_registers(partition.vector, sizes), keepable=True
    )


@dataclass(frozen=True)
class RegisterChoices:
    """Accumulators that stay in registers, and the pieces of every product.

    ``limit`` is what each thread can have.
    """

    accumulators: frozenset[Operation]
    pieces: dict[tb.MatmulOp, Pieces]
    limit: int


def choose_registers(
    graph: CustomizedOp,
    levels: Levels,
    warp_layouts: dict[tb.MatmulOp, WarpLayout],
    target: Target,
    threads: int,
) -> RegisterChoices:
    """Accumulators to keep in registers, in order while all registers suffice.

    Products that do not add up in place and have more values than the rest holds are computed in
    pieces.  ``threads`` are those of the block, those that load included.
    """
    ops = [op for level in (*levels.body, *levels.after) for op in level]
    works = [work_of(op, graph, warp_layouts) for op in ops]
    limit = register_limit(threads, target.registers_per_multiprocessor)
    kept = choose_kept(works, limit)
    left = limit - WORKING_REGISTERS - sum(works[index].result for index in kept)
    pieces: dict[tb.MatmulOp, Pieces] = {}
    for op, layout in warp_layouts.items():
        *_, rows, columns = shape_of(op.result.type)
        pieces[op] = choose_pieces(layout.tiles_of_a_warp(rows, columns), left)
    return RegisterChoices(frozenset(ops[index] for index in kept), pieces, limit)


@dataclass(frozen=True)
class ProductChoices:
    """How warps share each product, and what registers hold."""

    warp_layouts: dict[tb.MatmulOp, WarpLayout]
    registers: RegisterChoices


def choose_products(
    graph: CustomizedOp,
    levels: Levels,
    target: Target,
    threads: int,
    *,
    groups: WarpgroupLimits | None = None,
) -> ProductChoices:
    """The choices for all products of a graph, in a block of so many threads in all.

    Where the sums of a product cannot stay in registers, those of warps along k would have to be
    added in each iteration, which its arrangement then takes into account.  ``groups``: what warp
    groups compute, unless one of their products would have to be computed in pieces.
    """
    layouts = choose_warp_layouts(graph, target, groups=groups)
    registers = choose_registers(graph, levels, layouts, target, threads)
    if any(
        is_of_warpgroups(layout.atom)
        and op not in registers.accumulators
        and registers.pieces[op].count > 1
        for op, layout in layouts.items()
    ):
        return choose_products(graph, levels, target, threads)
    homeless = {
        op: choose_layout_of(op, graph.threads, 1, target)
        for op, layout in layouts.items()
        if layout.k > 1 and sums_once(op) and op not in registers.accumulators
    }
    if not homeless:
        return ProductChoices(layouts, registers)
    layouts |= homeless
    return ProductChoices(layouts, choose_registers(graph, levels, layouts, target, threads))


def not_promoted(graph: CustomizedOp, choices: ProductChoices) -> tb.MatmulOp | None:
    """A product whose sums are to be promoted, and which registers do not hold beside those."""
    for op, layout in choices.warp_layouts.items():
        kept = op in choices.registers.accumulators
        if is_promoted(op, layout, graph.decided) and not kept:
            return op
    return None


def no_room_to_promote(op: tb.MatmulOp) -> str:
    """A sentence for a product whose sums are added up by its instruction, with few bits."""
    return (
        f"{op_label(op)} is added up with 14 bits, as registers have no room for the sums of an "
        "iteration beside those of the loop; give the block more warp groups, or make the tile "
        "smaller, or write promote = false in its plan"
    )


def spill_notes(choices: RegisterChoices) -> Iterator[str]:
    """A sentence for every product whose values registers cannot hold, in pieces or not."""
    for op, pieces in choices.pieces.items():
        needed = pieces.registers + WORKING_REGISTERS
        if op not in choices.accumulators and needed > choices.limit:
            yield (
                f"{op_label(op)} needs about {needed} registers a thread of "
                f"{choices.limit} and will be slow, as the rest lies in local memory; give the "
                "block more warps, or make the tile smaller"
            )
