"""Numbers of columns, such as the weights of a norm, come straight to the registers of all rows.

Each thread loads the numbers of its own columns beside its elements of the rows, once for all of
its rows.  Copied to shared memory by ``cp.async`` they came late: ptxas puts what threads compute
of rows in front of such copies.  Where a thread's rows are in other columns it would load as many
numbers as elements.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.multiplies import MultipliesMatrices
from mugraph.dialects.sched.structure import computing_threads, runs_once
from mugraph.dialects.tensor_types import element_type_of, shape_of

MOST_VALUES = 32
"""Of a thread, of the rows that it holds."""
MOST_COLUMNS = 1024
"""Of rows that gain: a layer norm of 5000 x 1000 took 7.53 us on an H200 so and 8.67 with numbers
in shared memory, one of 3000 x 1152 6.38 and 5.93 (``benchmarks/results/rows_h200.md``)."""


class ColumnLoad(NamedTuple):
    """A copy of a tile in place of that of the numbers that all of its rows have."""

    narrow: sched.AllocOp
    copy: sched.CopyOp
    wide: sched.AllocOp
    instead: sched.CopyOp

    def undo(self) -> None:
        """Copies the numbers once, where those of all rows are not in registers."""
        if self.wide.parent is None:
            return
        for op, before in ((self.narrow, self.wide), (self.copy, self.instead)):
            assert before.parent is not None
            before.parent.insert_op_before(op, before)
        self.instead.detach()
        self.instead.erase()
        self.wide.result.replace_all_uses_with(self.narrow.result)
        self.wide.detach()
        self.wide.erase()


def load_columns(kernel: sched.KernelOp) -> list[ColumnLoad]:
    """Has the numbers of columns that a kernel's one iteration reads loaded for all rows.

    In kernels of rows.  Others, such as attention that rotates its queries and the sums of parts of
    products, load such numbers before they wait for other kernels, and were not timed.
    """
    if not runs_once(kernel) or not is_of_rows(kernel):
        return []
    buffers = [op for op in kernel.body.walk() if isinstance(op, sched.AllocOp)]
    found = [_load(buffer, computing_threads(kernel)) for buffer in buffers]
    return [each for each in found if each is not None]


def is_of_rows(kernel: sched.KernelOp) -> bool:
    """Analysis: whether a kernel multiplies no matrices and combines elements of rows alone."""
    if any(isinstance(op, MultipliesMatrices) for op in kernel.body.walk()):
        return False
    shapes = [
        (shape_of(op.source.type), shape_of(op.destination.type))
        for op in kernel.body.walk()
        if isinstance(op, sched.ReduceOp)
    ]
    return all(whole[:-1] == each[:-1] for whole, each in shapes)


def _load(buffer: sched.AllocOp, threads: int) -> ColumnLoad | None:
    users = [use.operation for use in buffer.result.uses]
    copies = [op for op in users if isinstance(op, sched.CopyOp) and _brings(op, buffer)]
    readers = [op for op in users if op not in copies]
    wholes = {_shape_of_map(op) for op in readers}
    if len(copies) != 1 or len(wholes) != 1 or buffer.stage_count != 1:
        return None
    (copy,), (whole,) = copies, wholes
    own = shape_of(buffer.result.type)
    if whole is None or not _repeats_rows(own, whole, copy.partition.data.inner):
        return None
    if not _has_same_columns(whole, copy.partition.data, threads):
        return None
    wide = sched.AllocOp(_wider(buffer, whole, copy.partition.data.order))
    wide.result.name_hint = buffer.result.name_hint
    instead = sched.CopyOp(copy.source, wide.result, copy.partition.data, within=copy.checked_dims)
    for op, before in ((wide, buffer), (instead, copy)):
        inherit_location(op, before)
        assert before.parent is not None
        before.parent.insert_op_before(op, before)
        before.detach()
    for reader in readers:
        for index, operand in enumerate(reader.operands):
            if operand is buffer.result:
                reader.operands[index] = wide.result
    return ColumnLoad(buffer, copy, wide, instead)


def _brings(op: sched.CopyOp, buffer: sched.AllocOp) -> bool:
    """Whether a copy fills a buffer, once, from a tile that lies in one place."""
    tile = op.source.owner
    return (
        op.destination is buffer.result
        and isinstance(tile, sched.LocalTileOp)
        and tile.is_plain
        and sched.enclosing_loop(op) is None
        and not op.is_async
    )


def _shape_of_map(op: Operation) -> tuple[int, ...] | None:
    """The extents of what an operator computes element by element; ``None`` of others."""
    return shape_of(op.destination.type) if isinstance(op, sched.MapOp) else None


def _repeats_rows(own: tuple[int, ...], whole: tuple[int, ...], inner: int) -> bool:
    """Whether a buffer has the numbers of columns of a tile that has several rows."""
    same = own[inner] == whole[inner] > 1
    return own != whole and same and all(a in (1, b) for a, b in zip(own, whole, strict=True))


def _has_same_columns(whole: tuple[int, ...], loaded: LinearPartition, threads: int) -> bool:
    """Whether all rows of a tile that a thread has are few, and in the same columns.

    ``loaded``: how one row was.  Vectors are as wide as leave work for all threads.
    """
    elements, vector = math.prod(whole), loaded.vector
    while vector > 1 and vector * threads > elements:
        vector //= 2
    columns = whole[loaded.inner]
    few = elements <= MOST_VALUES * threads and columns <= MOST_COLUMNS
    return few and vector * threads % columns == 0


def _wider(
    buffer: sched.AllocOp, shape: tuple[int, ...], order: tuple[int, ...]
) -> sched.SharedType:
    """The type of a buffer of so many elements."""
    strides, span = [0] * len(shape), 1
    for dim in order:
        strides[dim] = span
        span *= shape[dim]
    element = element_type_of(buffer.result.type)
    return sched.SharedType.of(shape, element, LayoutAttr(Layout(shape, tuple(strides))))
