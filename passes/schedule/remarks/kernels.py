"""Remarks about whole kernels: multiprocessors without a block, and tensors between two kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mugraph.dialects import kn, sched
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.remarks.scheduled import Scheduled, shown


def block_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Whether there are fewer blocks than multiprocessors."""
    kernel, all_of_them = scheduled.kernel, scheduled.target.multiprocessors
    blocks = math.prod(kernel.grid_dim)
    if blocks < all_of_them:
        grid = ", ".join(map(str, kernel.grid_dim))
        splits = " or divide its loop over blocks (plan <split_k = ...>)"
        yield scheduled.remark(
            Kind.BLOCKS,
            f"it runs on {blocks} of {all_of_them} multiprocessors",
            Obstacle(
                f"its grid [{grid}] has no more blocks",
                "cut its results in more tiles (plan <grid = [...]>)"
                + (splits if loop_iterations(kernel) > 1 else ""),
            ),
        )


def fusion_remarks(module: ModuleOp, kernels: Sequence[Scheduled]) -> Iterator[Remark]:
    """Tensors that pass through device memory between kernels that could be one."""
    by_name = {scheduled.name: scheduled for scheduled in kernels}
    for op in module.walk():
        if not isinstance(op, sched.LaunchOp | kn.ElementwiseOp):
            continue
        for number, value in enumerate(op.operands):
            launch = value.owner
            if not isinstance(launch, sched.LaunchOp):
                continue
            if isinstance(op, sched.LaunchOp):
                if not _is_own_tile(launch, value, op, number):
                    continue
                reader = f"@{op.resolve().sym_name.data}"
                reason = f"each block of {reader} reads only what the same block wrote"
                mend = "write both as one kn.customized"
            else:
                reader = op_label(op)
                reason = f"{reader} is a separate element-wise kernel"
                mend = (
                    f"compute it in the block, as tb.{op.name.partition('.')[2]}, before tb.output"
                )
            lost = f"{shown(value)} passes through device memory to {reader}"
            writer = by_name[launch.resolve().sym_name.data]
            yield writer.remark(Kind.FUSION, lost, Obstacle(reason, mend), shown(value))


def _is_own_tile(
    writer: sched.LaunchOp, value: SSAValue, reader: sched.LaunchOp, operand: int
) -> bool:
    """Whether each block of a kernel reads just the tile that the other's same block wrote."""
    first, second = writer.resolve(), reader.resolve()
    result = len(writer.arguments) + writer.outputs.index(value)
    written = _tiles(first, result)
    read = _tiles(second, operand)
    return bool(written) and first.grid_dim == second.grid_dim and written == read


def _tiles(kernel: sched.KernelOp, argument: int) -> set[tuple[tuple[int, ...], ...]]:
    """The maps and extents of the tiles that a kernel cuts from an argument; none if they move."""
    tiles = [
        use.operation
        for use in kernel.body.block.args[argument].uses
        if isinstance(use.operation, sched.LocalTileOp)
    ]
    if any(tile.loop_dim >= 0 for tile in tiles):
        return set()
    return {(tile.map_, shape_of(tile.result.type)) for tile in tiles}
