"""Results of products that go from registers straight to device memory.

A fragment that is stored to a shared buffer only to be copied out of it is written by the quads of
lanes that hold it (``sched.store``): no shared memory, and no barrier between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.quad_store import quad_store_problem
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import element_type_of


@dataclass(frozen=True)
class WriteBack:
    """A buffer between a fragment and device memory: what writes it, and what copies it out."""

    buffer: sched.AllocOp
    store: sched.StoreOp
    copy: sched.CopyOp


def find_write_backs(
    kernel: sched.KernelOp, is_possible: Callable[[WriteBack], bool] | None = None
) -> Iterator[WriteBack]:
    """The buffers that fragments reach device memory through, and could do without.

    Those for which ``is_possible``; if it is not given those whose fragments quads can write.
    """
    wanted = is_possible or _quads_can_write
    for buffer in kernel.body.walk():
        found = write_back_through(buffer) if isinstance(buffer, sched.AllocOp) else None
        if found is not None and not found.copy.checked_dims and wanted(found):
            yield found


def write_back_through(buffer: sched.AllocOp) -> WriteBack | None:
    """The detour that a buffer is: a fragment is stored to it only to be copied out as it is."""
    users = [use.operation for use in buffer.result.uses]
    stores = [op for op in users if isinstance(op, sched.StoreOp)]
    copies = [op for op in users if isinstance(op, sched.CopyOp)]
    if len(users) != 2 or len(stores) != 1 or len(copies) != 1:
        return None
    found = WriteBack(buffer, stores[0], copies[0])
    return found if _is_a_detour(found) else None


def _quads_can_write(found: WriteBack) -> bool:
    fragment = found.store.source.type
    return (
        isinstance(fragment, sched.TileType)
        and quad_store_problem(fragment, found.copy.destination) is None
    )


def _is_a_detour(found: WriteBack) -> bool:
    store, copy = found.store, found.copy
    fragment, tile = store.source.type, copy.destination
    return (
        isinstance(fragment, sched.TileType)
        and isinstance(tile.type, sched.GlobalType)
        and store.parent_op() is copy.parent_op()
        and store.at is None
        and not epilogue_of(store).accumulates
        and element_type_of(found.buffer.result.type) == element_type_of(tile.type)
    )


def write_back_directly(found: WriteBack) -> sched.StoreOp:
    """Lets the fragment be written to device memory where it was stored; erases the detour."""
    direct = sched.StoreOp(found.store.source, found.copy.destination, epilogue_of(found.store))
    Rewriter.replace_op(found.store, direct, [])
    Rewriter.erase_op(found.copy)
    Rewriter.erase_op(found.buffer)
    return direct
