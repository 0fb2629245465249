"""Long rows of tiles that a loop loads come into registers before they are reduced.

A reduction in shared memory has at most a warp for each row, and others read the row again.  In
registers all threads of a block share it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.structure import computing_threads
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.schedule.promote_registers.linear import is_loaded_in_loop


class RowLoad(NamedTuple):
    """A copy of a loaded tile, for the operators of an iteration to read in its place."""

    tile: SSAValue
    buffer: sched.AllocOp
    copy: sched.MapOp

    def undo(self) -> None:
        """Lets operators read the tile itself, where its copy is not in registers."""
        if self.buffer.parent is None:
            return
        self.copy.detach()
        self.copy.erase()
        self.buffer.result.replace_all_uses_with(self.tile)
        self.buffer.detach()
        self.buffer.erase()


def load_long_rows(kernel: sched.KernelOp) -> list[RowLoad]:
    """Inserts copies of the tiles of which warps would reduce whole rows in shared memory."""
    threads = computing_threads(kernel)
    loads: dict[SSAValue, RowLoad] = {}
    for op in list(kernel.body.walk()):
        if isinstance(op, sched.ReduceOp) and op.source not in loads and _has_long_rows(op):
            loads[op.source] = _load(op, threads, kernel)
    return list(loads.values())


def _has_long_rows(op: sched.ReduceOp) -> bool:
    """Whether warps would go along rows of a tile that is loaded in a loop, each alone."""
    owner = op.source.owner
    if not isinstance(owner, sched.AllocOp) or not is_loaded_in_loop(owner):
        return False
    rows = math.prod(shape_of(op.destination.type))
    length = math.prod(shape_of(op.source.type)) // rows
    along = op.grouping.data is sched.Grouping.CONTIGUOUS and not op.drops_dim
    return along and length > WARP


def _load(op: sched.ReduceOp, threads: int, kernel: sched.KernelOp) -> RowLoad:
    tile, block = op.source, op.parent
    assert isinstance(tile.type, sched.SharedType) and block is not None
    shape = shape_of(tile.type)
    rest = (dim for dim in reversed(range(len(shape))) if dim != op.reduced_dim)
    buffer = sched.AllocOp(tile.type)
    buffer.result.name_hint = tile.name_hint
    copy = sched.MapOp(
        ScalarFunction("identity"),
        [tile],
        buffer.result,
        partition=LinearPartition(threads, 1, (op.reduced_dim, *rest)),
    )
    readers = [each for each in block.ops if _reads(each, tile, shape)]
    for made in (buffer, copy):
        inherit_location(made, op)
    for reader in readers:
        for index, operand in enumerate(reader.operands):
            if operand is tile:
                reader.operands[index] = buffer.result
    block.insert_op_before(copy, readers[0])
    first = kernel.body.block.first_op
    assert first is not None
    kernel.body.block.insert_op_before(buffer, first)
    return RowLoad(tile, buffer, copy)


def _reads(op: Operation, tile: SSAValue, shape: tuple[int, ...]) -> bool:
    """Whether an operator computes of a tile what a thread can compute of its own elements."""
    if isinstance(op, sched.MapOp):
        return tile in op.sources and shape_of(op.destination.type) == shape
    return isinstance(op, sched.ReduceOp) and op.source is tile
