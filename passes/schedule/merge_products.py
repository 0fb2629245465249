"""``--merge-products``: two products of warp groups with one left matrix become one.

The right matrices lie side by side in one buffer, and an instruction of twice the length multiplies
both: the left matrix is read from shared memory once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.bulk import BulkCopyError, tile_layouts
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import matrix_descriptor
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import MAX_GROUP_COLUMNS
from mugraph.dialects.sched.mappings import matrix_layout
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    element_type_of,
    shape_of,
)
from mugraph.passes.each import UnplannedKernelPass


@dataclass(frozen=True)
class Pair:
    """Two products of one left matrix, and the buffers of their right ones."""

    first: sched.WarpgroupMmaOp
    second: sched.WarpgroupMmaOp
    buffers: tuple[sched.AllocOp, sched.AllocOp]
    channel: sched.ChannelOp
    layout: AnyLayout
    """How both right matrices lie side by side."""


def find_pairs(kernel: sched.KernelOp) -> Iterator[Pair]:
    """The products of a kernel that can be one with the product right before them."""
    for second in kernel.body.walk():
        first = second.prev_op
        if not isinstance(second, sched.WarpgroupMmaOp):
            continue
        if isinstance(first, sched.WarpgroupMmaOp) and (pair := _pair(first, second)) is not None:
            yield pair


def _pair(first: sched.WarpgroupMmaOp, second: sched.WarpgroupMmaOp) -> Pair | None:
    if first.lhs is not second.lhs or first.lhs_in_registers or first.is_async or second.is_async:
        return None
    if len(first.accumulators) > 1 or len(second.accumulators) > 1:
        return None
    if second.accumulator in first.results:
        return None
    if first.accumulator.type != second.accumulator.type:
        return None
    columns = shape_of(first.accumulator.type)[-1]
    if first.atom.sum_bits is not None:
        return None  # threads may add up the sums of each, and take the place of zeros
    if mma_atom(first.tiled_mma.atom).swaps_operands:
        return None  # the right matrix is then read 64 columns an instruction, merged or not
    groups_n, length = first.tiled_mma.thr_layout[1], mma_atom(first.tiled_mma.atom).shape_mnk[1]
    if groups_n != 1 or length != columns or 2 * length > MAX_GROUP_COLUMNS:
        return None
    one, other = first.rhs.owner, second.rhs.owner
    if not isinstance(one, sched.AllocOp) or not isinstance(other, sched.AllocOp):
        return None
    if one is other or one.result.type != other.result.type or one.stage_count != other.stage_count:
        return None
    channels = {_channel_of(one, first), _channel_of(other, second)}
    channel = channels.pop()
    if channel is None or channels:
        return None
    layout = _side_by_side(one)
    return None if layout is None else Pair(first, second, (one, other), channel, layout)


def _channel_of(buffer: sched.AllocOp, product: sched.WarpgroupMmaOp) -> sched.ChannelOp | None:
    """The channel of a buffer that only bulk copies fill and one product reads."""
    users = [use.operation for use in buffer.result.uses]
    channels = [op for op in users if isinstance(op, sched.ChannelOp)]
    others = [op for op in users if op is not product and not isinstance(op, sched.ChannelOp)]
    is_plain = all(isinstance(op, sched.BulkCopyOp) and op.at is None for op in others)
    return channels[0] if is_plain and len(channels) == 1 else None


def _side_by_side(buffer: sched.AllocOp) -> AnyLayout | None:
    """A layout for the buffer's matrix and another beside it; ``None`` where copies have none."""
    copy = next(
        use.operation for use in buffer.result.uses if isinstance(use.operation, sched.BulkCopyOp)
    )
    shape = _doubled(shape_of(buffer.result.type))
    size = element_bytes_of(buffer.result.type)
    tensor = copy.mapped()
    try:
        found = tile_layouts(tensor.shape, tensor.strides, shape, size, boxes=True)
    except BulkCopyError:
        return None
    for layout in found:
        try:
            matrix_descriptor(matrix_layout(layout, shape, transposed=True), size)
        except LayoutError:
            continue
        if _can_bring_halves(copy, layout):
            return layout
    return None


def _can_bring_halves(copy: sched.BulkCopyOp, layout: AnyLayout) -> bool:
    """Whether bulk copies like this one can bring both halves of a buffer so laid out."""
    type_ = copy.buffer.type
    shape = shape_of(type_)
    whole = sched.SharedType.of(_doubled(shape), element_type_of(type_), LayoutAttr(layout))
    both = sched.AllocOp(whole)
    start = [0] * (len(shape) - 1) + [shape[-1]]
    trial = sched.BulkCopyOp(copy.source, both.result, copy.channel, at=start)
    try:
        trial.bulk_tile()
    except VerifyException:
        return False
    finally:
        trial.erase()
    return True


def _doubled(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], 2 * shape[-1])


def merge(pair: Pair) -> None:
    """Rewrite: one buffer, whose halves the copies bring, and one product with two accumulators."""
    one, other = pair.buffers
    type_ = one.result.type
    shape = shape_of(type_)
    both = sched.AllocOp(
        sched.SharedType.of(_doubled(shape), element_type_of(type_), LayoutAttr(pair.layout)),
        one.stage_count,
    )
    both.result.name_hint = f"{one.result.name_hint}_{other.result.name_hint}"
    Rewriter.insert_op(both, InsertPoint.before(one))
    product = sched.WarpgroupMmaOp(
        pair.first.lhs, both.result, pair.first.accumulator, pair.second.accumulator
    )
    Rewriter.replace_op(pair.first, product, [product.results[0]])
    Rewriter.replace_op(pair.second, [], [product.results[1]])
    for buffer, column in ((one, 0), (other, shape[-1])):
        for use in tuple(buffer.result.uses):
            if isinstance(use.operation, sched.BulkCopyOp):
                use.operation.operands[use.index] = both.result
                use.operation.at = integer_array([0] * (len(shape) - 1) + [column])
    kept = [value for value in pair.channel.buffers if value.owner not in pair.buffers]
    pair.channel.operands = [*kept, both.result]
    for buffer in pair.buffers:
        Rewriter.erase_op(buffer)


class MergeProductsPass(UnplannedKernelPass):
    """Merges two products by warp groups that have the same left matrix.

    Where two products of one left matrix stand side by side, their right matrices come through one
    channel, and an instruction can be as long as both, bulk copies bring the right matrices side by
    side into one buffer (``sched.bulk_copy ... at [0, 128]``), and one product adds to both
    accumulators: ``sched.warpgroup_mma %sx, %sw1_sw2 to %gate, %up``.  Each reads the left matrix
    once, and half as many instructions are issued.

    Pre-condition: ``--pipeline-loads``; run ``--pipeline-products`` after it.
    """

    name = "merge-products"

    def run(self, kernel: sched.KernelOp) -> None:
        """Merges in a kernel."""
        while (pair := next(find_pairs(kernel), None)) is not None:
            merge(pair)
