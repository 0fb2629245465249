"""``--store-rows``: kernels store the rows that they compute where a table has them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from mugraph.dialects import kn, sched
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import CanJoin
from mugraph.dialects.kn.scatter import PlacedRows
from mugraph.dialects.kn.workspace import ADDRESS_ALIGNMENT, NOT_IN_WORKSPACE, memory_root
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    physical_elements,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)


@dataclass(frozen=True)
class Storing:
    """A scatter whose rows the kernel may store that computes them."""

    scatter: kn.ScatterOp
    launch: sched.LaunchOp
    argument: int
    """The kernel's argument that has the rows."""
    rows: PlacedRows


def lies_row_major(value: SSAValue) -> bool:
    """Analysis: whether a tensor lies without gaps, its last dimension innermost."""
    shape, strides = shape_of(value.type), strides_of(resolved_layout_of(value))
    return kn.have_same_places(shape, strides, row_major_strides(shape))


def computed_by(value: SSAValue) -> SSAValue | None:
    """Analysis: the result of a launch that lies where a tensor does, and that nothing else uses.

    ``None`` where there is none, where the tensor is a part of it, and where it has gaps.
    """
    elements = math.prod(shape_of(value.type))
    if not lies_row_major(value):
        return None
    while value.has_one_use():
        owner = value.owner
        if isinstance(owner, sched.LaunchOp):
            return value if physical_elements(resolved_layout_of(value)) == elements else None
        if not isinstance(owner, SharesMemory):
            return None
        value = owner.memory_of(value)
    return None


def may_store(kernel: sched.KernelOp, argument: BlockArgument, rows: PlacedRows) -> bool:
    """Analysis: whether each block stores, at once, a part of one piece of a row, or vectors."""
    alone = kernel.is_plain() and not kernel.cuts and not kernel.held_lengths
    if not (alone and kernel.waits_for_grids()):
        return False
    tiles = [use.operation for use in argument.uses]
    if len(tiles) != 1 or not isinstance(tile := tiles[0], sched.LocalTileOp) or not tile.is_plain:
        return False
    copies = [use.operation for use in tile.result.uses]
    if len(copies) != 1 or not isinstance(copies[0], sched.CopyOp) or copies[0].checked_dims:
        return False
    in_pieces = tile.lies_in_pieces(rows.elements) or finds_pieces(copies[0], rows)
    if tile.iteration_stride() or not in_pieces:
        return False
    size = element_bytes_of(argument.type)
    return all(step * size % ADDRESS_ALIGNMENT == 0 for step in (rows.row_stride, rows.apart))


def finds_pieces(copy: sched.CopyOp, rows: PlacedRows) -> bool:
    """Analysis: whether threads store a tile in vectors, each of which lies within one piece.

    What they hold in registers; they find the piece of each vector.
    """
    held = isinstance(copy.source.type, sched.TileType)
    return held and rows.elements % copy.partition.data.vector == 0


def head_of(op: Operation) -> Operation:
    """Analysis: the first of the operators that share an operator's launch."""
    while isinstance(op, CanJoin) and op.is_joined and op.prev_op is not None:
        op = op.prev_op
    return op


def may_be_stored(scatter: kn.ScatterOp) -> bool:
    """Analysis: whether the result may be written before the scatter, in vectors.

    What lies in the workspace shares bytes with tensors that are needed until then.
    """
    in_output = scatter.workspace_offsets() == (NOT_IN_WORKSPACE,)
    return in_output and alignment_of(scatter.result) >= ADDRESS_ALIGNMENT


def storing_of(scatter: kn.ScatterOp) -> Storing | None:
    """Analysis: how the kernel that computes a scatter's rows may store them, if it may."""
    rows, value = scatter.placed_rows(), computed_by(scatter.values)
    if rows is None or value is None or not may_be_stored(scatter):
        return None
    launch = value.owner
    assert isinstance(launch, sched.LaunchOp)  # as computed_by looks for one
    numbers = memory_root(scatter.rows)
    first = head_of(launch)
    known = not isinstance(numbers.owner, Operation) or numbers.owner.is_before_in_block(first)
    kernel = launch.resolve()
    argument = kernel.input_count + launch.outputs.index(value)
    if is_task(launch) or not known:
        return None
    if not may_store(kernel, kernel.body.block.args[argument], rows):
        return None
    return Storing(scatter, launch, argument, rows)


def storings(module: ModuleOp) -> Iterator[list[Storing]]:
    """Choice: the scatters of each kernel, of every launch of it the same ones."""
    found: dict[tuple[sched.KernelOp, int, PlacedRows], list[Storing]] = {}
    for op in module.walk():
        if isinstance(op, kn.ScatterOp) and (one := storing_of(op)) is not None:
            found.setdefault((one.launch.resolve(), one.argument, one.rows), []).append(one)
    counts = Counter(op.resolve() for op in module.walk() if isinstance(op, sched.LaunchOp))
    for (kernel, _, _), several in found.items():
        if len(several) == counts[kernel]:
            yield several


def store_rows(several: list[Storing]) -> None:
    """Rewrite: one kernel stores rows where tables have them, in all of its launches."""
    kernel = several[0].launch.resolve()
    argument = kernel.body.block.args[several[0].argument]
    (tile,) = (use.operation for use in argument.uses)
    assert isinstance(tile, sched.LocalTileOp)  # as may_store has asked
    # What says where the row is may be read once the kernel has waited.
    store = next(iter(tile.result.uses)).operation
    tile.detach()
    assert store.parent is not None
    store.parent.insert_op_before(tile, store)
    kernel.place(several[0].argument, several[0].rows)
    for scatter in (each.scatter for each in several):
        scatter.set_stored()
        if scatter.is_joined:
            head = head_of(scatter)
            assert head.parent is not None
            scatter.detach()
            head.parent.insert_op_before(scatter, head)
        scatter.leave_launch()


@dataclass(frozen=True)
class StoreRowsPass(ModulePass):
    """Lets kernels store rows of a table that is written in place: new keys in a cache.

    The pass takes scatters of one row whose values a kernel computes only for the scatter, and
    whose table is a result of the function. The blocks of the kernel store the row into the table,
    and the scatter needs no launch. If the row number is out of range, they store into the
    workspace. The scatter stays in the program with the attribute ``kn.stored``, and leaves the
    launch that it shared.  Pre-condition: ``--join-launches``.

    Before: ``%t = kn.scatter %v into %table rows %at dim 1``, ``%v`` a result of ``sched.launch``

    After: ``%t = kn.scatter %v into %table rows %at dim 1 {kn.stored}``
    """

    name = "store-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        for several in list(storings(op)):
            store_rows(several)
