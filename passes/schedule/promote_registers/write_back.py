"""Results of chains that go from registers straight to device memory."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.chaining import holds_pairs_of_columns
from mugraph.dialects.programming_model import SECTOR_BYTES
from mugraph.dialects.sched.quad_store import quad_store_problem
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.schedule.bulk_stores import alignments_of
from mugraph.passes.schedule.lower_threadblock.write_back import (
    WriteBack,
    find_write_backs,
    write_back_directly,
)


def writes_whole_sectors(fragment: sched.TileType, found: WriteBack) -> bool:
    """Whether lanes that share a row of a product write whole sectors of it, each its own values.

    For numbers of rows: whether neighbouring rows are neighbours in memory.
    """
    tile = found.copy.destination
    strides, size = strides_of(resolved_layout_of(tile)), element_bytes_of(tile.type)
    mma = fragment.arrangement
    if mma is None:
        return False
    if fragment.sliced_axis == -1:
        return shape_of(tile.type)[-1] == 1 and strides[-2] == 1
    atom = mma_atom(mma.atom)
    if not atom.is_scalar and not holds_pairs_of_columns(atom):
        return False
    width = atom.shape_mnk[1]
    is_aligned = all(stride * size % SECTOR_BYTES == 0 for stride in strides[:-1])
    whole = shape_of(tile.type)[-1] % width == 0
    return strides[-1] == 1 and is_aligned and whole and width * size % SECTOR_BYTES == 0


def can_be_written_directly(found: WriteBack) -> bool:
    """Whether the fragment of a product, or of its rows, need not go through shared memory."""
    fragment = found.store.source.type
    if not isinstance(fragment, sched.TileType) or fragment.arrangement is None:
        return False
    if fragment.parts > 1 or fragment.sliced_axis == -2:
        return False
    tile = found.copy.destination
    if quad_store_problem(fragment, tile) is None:
        return True
    return sched.tile_of_named_rows(tile) is None and writes_whole_sectors(fragment, found)


def results_of(kernel: sched.KernelOp) -> list[int]:
    """The bytes that each of a kernel's results is aligned to, wherever it is launched."""
    module = kernel.parent_op()
    launches = sched.launches_by_kernel(module)[kernel] if isinstance(module, ModuleOp) else []
    return alignments_of(kernel, launches)[kernel.input_count :]


def write_back(kernel: sched.KernelOp) -> bool:
    """Lets fragments of products be written where they were copied to; whether there were any.

    Elements of 16 bits by quads of lanes, 16 bytes a lane, wider ones as lanes hold them, where
    they make whole sectors.  Barriers stay where they are.
    """
    found = list(find_write_backs(kernel, lambda: results_of(kernel), can_be_written_directly))
    for each in found:
        write_back_directly(each)
    return bool(found)
