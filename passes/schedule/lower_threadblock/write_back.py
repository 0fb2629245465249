"""Results of products that go from registers straight to device memory.

A fragment that is stored to a shared buffer only to be copied out of it is written by the quads of
lanes that hold it (``sched.store``): no shared memory, and no barrier between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.dialects.sched.quad_store import quad_store_problem
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import element_type_of


@dataclass(frozen=True)
class WriteBack:
    """A buffer between a fragment and device memory: what writes it, and what copies it out.

    Several copies are for several devices.
    """

    buffer: sched.AllocOp
    store: sched.StoreOp
    copies: tuple[sched.CopyOp, ...]

    @property
    def copy(self) -> sched.CopyOp:
        """What copies it out first."""
        return self.copies[0]


def find_write_backs(
    kernel: sched.KernelOp,
    results: Callable[[], Sequence[int]],
    is_possible: Callable[[WriteBack], bool] | None = None,
) -> Iterator[WriteBack]:
    """The buffers that fragments reach device memory through, and could do without.

    Those for which ``is_possible``; if it is not given those whose fragments quads can write.
    ``results`` finds the bytes that each of the kernel's results is aligned to: vectors are
    written to what starts at one.
    """
    wanted = is_possible or _quads_can_write
    for buffer in kernel.body.walk():
        found = write_back_through(buffer) if isinstance(buffer, sched.AllocOp) else None
        if found is None or len(found.copies) > 1 or found.copy.checked_dims:
            continue
        if wanted(found) and results()[_result_of(found, kernel)] >= VECTOR_BYTES:
            yield found


def _result_of(found: WriteBack, kernel: sched.KernelOp) -> int:
    """Which of the kernel's results it is copied to."""
    tile = found.copy.destination.owner
    assert isinstance(tile, sched.LocalTileOp) and isinstance(tile.source, BlockArgument)
    return tile.source.index - kernel.input_count


def write_back_through(buffer: sched.AllocOp) -> WriteBack | None:
    """The detour that a buffer is: a fragment is stored to it only to be copied out as it is."""
    users = [use.operation for use in buffer.result.uses]
    stores = [op for op in users if isinstance(op, sched.StoreOp)]
    copies = tuple(op for op in users if isinstance(op, sched.CopyOp))
    if len(stores) != 1 or not copies or len(users) != 1 + len(copies):
        return None
    found = WriteBack(buffer, stores[0], copies)
    return found if _is_a_detour(found) else None


def _quads_can_write(found: WriteBack) -> bool:
    fragment = found.store.source.type
    return (
        isinstance(fragment, sched.TileType)
        and quad_store_problem(fragment, found.copy.destination) is None
    )


def _is_a_detour(found: WriteBack) -> bool:
    store, element = found.store, element_type_of(found.buffer.result.type)
    return (
        isinstance(store.source.type, sched.TileType)
        and store.at is None
        and not epilogue_of(store).accumulates
        and all(
            copy.source is found.buffer.result
            and isinstance(copy.destination.type, sched.GlobalType)
            and store.parent_op() is copy.parent_op()
            and element == element_type_of(copy.destination.type)
            for copy in found.copies
        )
    )


def write_back_directly(found: WriteBack) -> sched.StoreOp:
    """Lets the fragment be written to device memory where it was stored; erases the detour."""
    direct = sched.StoreOp(found.store.source, found.copy.destination, epilogue_of(found.store))
    Rewriter.replace_op(found.store, direct, [])
    Rewriter.erase_op(found.copy)
    Rewriter.erase_op(found.buffer)
    return direct
