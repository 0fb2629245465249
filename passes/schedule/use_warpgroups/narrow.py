"""Products of weights of few bits by warp groups, which convert them on the way to registers.

Threads take a right matrix from registers where the hardware multiplies the transposed matrices:
it is the hardware's left one then, 64 of its columns an instruction, and the rows of the left
matrix, 8 or more, are the instruction's columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.bulk import SWIZZLE_SPANS, pattern_bytes
from mugraph.dialects.cute.atoms import MmaAtom, WarpgroupForm, mma_atom, warpgroup_family
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import GROUP_ROWS, GROUP_THREADS
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    element_type_of,
    shape_of,
    with_layout,
)
from mugraph.passes.costs.products import FEWEST_CONVERTED_ROWS, group_cycles, group_latency
from mugraph.passes.schedule.use_warpgroups.chains import (
    cycles_of_warps,
    fragments_held,
    products_of_groups,
    retyped,
    walked_layout,
)
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class Converted:
    """The products of a role, of right matrices that threads convert, and their instruction."""

    role: sched.RoleOp
    by_warps: TiledMmaAttr
    by_groups: TiledMmaAttr
    products: tuple[sched.MmaOp, ...]

    def fragments(self) -> Iterator[SSAValue]:
        """The fragments that are held as the products' accumulators are."""
        return fragments_held(self.role, self.by_warps)


def find_converted(kernel: sched.KernelOp) -> Iterator[Converted]:
    """The roles all of whose products are of converted matrices, and fit warp groups."""
    for role, products in products_of_groups(kernel):
        arrangements = {sched.arrangement_in(op.accumulator) for op in products}
        instructions = {_instruction(op, role.threads // GROUP_THREADS) for op in products}
        if len(arrangements) != 1 or len(instructions) != 1:
            continue
        (by_warps,), (by_groups,) = arrangements, instructions
        if by_warps is None or by_groups is None or by_warps.thr_layout[2] != 1:
            continue
        found = Converted(role, by_warps, by_groups, tuple(products))
        if all(map(_is_held_by_columns, found.fragments())):
            yield found


def _is_held_by_columns(value: SSAValue) -> bool:
    """Whether a fragment is whole or numbers of columns: no quad of lanes has a row afterwards."""
    type_ = value.type
    return (
        isinstance(type_, sched.TileType)
        and type_.sliced_axis != -1
        and not any(isinstance(use.operation, sched.ReduceOp) for use in value.uses)
    )


def _instruction(op: sched.MmaOp, groups: int) -> TiledMmaAttr | None:
    """The instruction, and how groups share a product; ``None`` where they cannot.

    The left matrix came by bulk copies, in rows that a descriptor can say.
    """
    if op.through is None or op.at is not None or op.lhs_in_registers:
        return None
    element = element_type_name(element_type_of(op.lhs.type))
    family = warpgroup_family(element, element)
    *_, rows, columns = shape_of(op.accumulator.type)
    depth = shape_of(op.rhs.type)[-2]
    if family is None or element_bytes_of(op.lhs.type) != 2 or depth % family.depth:
        return None
    length = family.longest(rows)
    tiles = columns // GROUP_ROWS
    if length is None or columns % GROUP_ROWS or not _starts_with_a_pattern(op):
        return None
    along_n = max(count for count in range(1, groups + 1) if tiles % count == 0)
    atom = family.atom(length, WarpgroupForm.SWAPPED_REGISTERS)
    return TiledMmaAttr(atom.name, (1, along_n, 1))


def _starts_with_a_pattern(op: sched.MmaOp) -> bool:
    """Whether descriptors can say where the left matrix lies."""
    layout = walked_layout(op.lhs)
    if layout is None:
        return False
    offset = base_layout(layout)(*op.start_of_lhs) * element_bytes_of(op.lhs.type)
    return offset % pattern_bytes(max(SWIZZLE_SPANS)) == 0


def takes_less(found: Converted, target: Target) -> bool:
    """Whether warp groups take fewer cycles for the products of a role than single warps."""
    atom = mma_atom(found.by_groups.atom)
    if any(shape_of(op.accumulator.type)[-2] < FEWEST_CONVERTED_ROWS for op in found.products):
        return False
    by_groups = math.fsum(_cycles(op, atom, target) for op in found.products)
    by_warps = math.fsum(cycles_of_warps(op, found.by_warps, target) for op in found.products)
    return by_groups < by_warps


def _cycles(op: sched.MmaOp, atom: MmaAtom, target: Target) -> float:
    macs = math.prod(shape_of(op.accumulator.type)) * shape_of(op.rhs.type)[-2]
    return group_cycles(macs, target, atom.a_type) + group_latency(1)


def use_groups(found: Converted) -> None:
    """Writes the products as those of warp groups."""
    for value in tuple(found.fragments()):
        Rewriter.replace_value_with_new_type(value, retyped(value, found.by_groups))
    for op in found.products:
        layout = walked_layout(op.lhs)
        assert layout is not None  # found by the analysis
        Rewriter.replace_value_with_new_type(op.lhs, with_layout(op.lhs.type, layout))
    for op in found.products:
        start = None if op.lhs_start is None else op.start_of_lhs
        assert op.through is not None  # found by the analysis
        new = sched.WarpgroupMmaOp(
            op.lhs, op.rhs, op.accumulator, through=op.through.data, lhs_start=start
        )
        Rewriter.replace_op(op, new)


def convert_by_groups(kernel: sched.KernelOp, target: Target) -> None:
    """Lets warp groups convert what they multiply where that takes fewer cycles."""
    swaps = kernel.decided.swap_ab
    for found in list(find_converted(kernel)):
        if swaps is not False and (swaps or takes_less(found, target)):
            use_groups(found)
