"""Which buffers threads exchange elements through, once it is chosen which iterations each has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.te.points import Rows, grid_of, touched_numbers
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.family import BandMapping, Role

MOST_REGISTERS = 128
"""The 32-bit registers that a buffer of undecided place may take of each thread."""
_MOST_POINTS = 1 << 22

Dealt = Mapping[te.ParOp, tuple[Band, BandMapping]]
"""Bands by their first loop, and the mapping of each."""


def exchanged_buffers(
    root: te.ThreadsOp, dealt: Dealt, held: set[SSAValue], most_bytes: int
) -> list[te.NewOp]:
    """The buffers of undecided place, of a block's program, that registers cannot hold.

    Two threads touch one of their elements, or one thread touches too many.  ``held`` are those
    that all threads hold.  Buffers that lanes of a warp's program touch, of more than
    ``most_bytes``, are left out.
    """
    found: list[te.NewOp] = []
    for op in root.walk():
        if not isinstance(op, te.NewOp) or op.result in held:
            continue
        type_ = op.result.type
        is_open = type_.memory_space is None and not any(
            isinstance(one, te.ParOp) for one in ancestors(op)
        )
        if is_open and _bytes(type_) <= most_bytes and not _fits_registers(op, root, dealt):
            found.append(op)
    return found


def _bytes(type_: te.BufferType) -> int:
    return type_.elements * element_bytes_of(type_)


def _fits_registers(new: te.NewOp, root: te.ThreadsOp, dealt: Dealt) -> bool:
    """Whether each element is one thread's, and no thread has too many.

    False for elements that contents or a block say, and where too much would have to be listed, as
    registers have no addresses; true for buffers of warps' programs.
    """
    owner = np.full(new.result.type.elements, -1, np.int64)
    for op, touch in te.touches_of(new.result):
        loops = [one for one in te.enclosing_loops(op) if root.is_ancestor(one) and one is not root]
        parallel = [one for one in loops if isinstance(one, te.ParOp)]
        band, mapping = dealt.get(parallel[-1], (None, None)) if parallel else (None, None)
        if parallel and (band is None or mapping is None):
            return True
        of_band = list(band.loops) if band is not None else []
        if isinstance(op, te.AccessOp) and op.is_indirect:
            return False
        used = set(variables_of(touch.indices))
        loops = [one for one in loops if one in of_band or one.variable in used]
        if any(not _is_loop_of(root, one) for one in used):
            return False
        if math.prod([one.iterations for one in loops]) * math.prod(touch.box) > _MOST_POINTS:
            return False
        points, count = grid_of(loops, _conditions(op, {one.variable for one in loops}))
        threads = np.zeros(count, np.int64)
        if band is not None and mapping is not None:
            threads = _threads_of(mapping, [points[one.variable] for one in band.loops])
        numbers = touched_numbers(touch, points, count)
        if count and (numbers.min() < 0 or numbers.max() >= len(owner)):
            return True  # an access outside of the buffer, which is reported later
        if not _claim(owner, numbers, threads):
            return False
    held = np.bincount(owner[owner >= 0]) if (owner >= 0).any() else np.zeros(1, np.int64)
    return int(held.max()) * element_bytes_of(new.result.type) <= MOST_REGISTERS * 4


def _is_loop_of(root: te.ThreadsOp, variable: SSAValue) -> bool:
    """Whether a variable is that of a loop in a block's program."""
    block = variable.owner
    loop = block.parent_op() if not isinstance(block, Operation) else None
    return loop is not None and loop is not root and root.is_ancestor(loop)


def _conditions(op: Operation, known: set[SSAValue]) -> list[te.IfOp]:
    """The conditions around an operator that some variables decide."""
    return [
        one
        for one in ancestors(op)
        if isinstance(one, te.IfOp) and set(variables_of(list(one.indices))) <= known
    ]


def _claim(owner: Rows, numbers: Rows, threads: Rows) -> bool:
    """Makes elements those of the threads that touch them; false where one has an owner."""
    every = np.broadcast_to(threads[:, None], numbers.shape).reshape(-1)
    numbers = numbers.reshape(-1)
    before = owner[numbers]
    if ((before >= 0) & (before != every)).any():
        return False
    owner[numbers] = every
    return bool((owner[numbers] == every).all())


def _threads_of(mapping: BandMapping, indices: Sequence[Rows]) -> Rows:
    """The thread that each iteration of a band is dealt to."""
    thread = np.zeros(len(indices[0]), np.int64)
    for dimension, index in enumerate(indices):
        for which, (stride, radix) in enumerate(mapping.digits[dimension].placed(Role.THREAD)):
            thread += index // stride % radix * mapping.thread_strides[dimension, which]
    return thread
