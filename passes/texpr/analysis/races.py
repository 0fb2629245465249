"""Iterations of a parallel loop that touch the same element, one of them writing, found exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.passes.texpr.analysis.domains import Access, accesses_of
from mugraph.passes.texpr.analysis.pairs import pairs_of
from mugraph.passes.texpr.analysis.roles import takes_turns


@dataclass(frozen=True)
class Race:
    """Two iterations of a parallel loop and an element that both touch."""

    loop: te.ParOp
    outer: dict[SSAValue, int]
    """The variables of the loops around, the same for both."""
    iterations: tuple[int, int]
    """The loop's variable in each."""
    accesses: tuple[Access, Access]
    """What each does; at least one writes."""
    element: tuple[int, ...]
    """The coordinate, or the number in row-major order."""


def find_race(root: Operation) -> Race | None:
    """A race in the first parallel loop of the text that has one, if there is any.

    Calls must have been inlined and sections folded.  The function's parameters are different
    buffers.  Iterations of a ``fully`` parallel loop that hand over by instructions are ordered
    by these in shared memory, which vector clocks check once threads have them (``--te-lower``).
    """
    return next(races_in(root), None)


def races_in(root: Operation) -> Iterator[Race]:
    """A race of every pair of accesses that has one, loop by loop."""
    accesses = accesses_of(root)
    for loop in root.walk():
        if not isinstance(loop, te.ParOp) or loop.iterations == 1:
            continue
        shared = [one for one in accesses if loop in one.domain.loops and _outside(one, loop)]
        if loop.is_fully and takes_turns(loop):
            shared = [one for one in shared if one.type.memory_space is not te.Space.SHARED]
        for first, second in combinations_with_replacement(shared, 2):
            if first.buffer is second.buffer and first.conflicts(second):
                race = _race(loop, first, second)
                if race is not None:
                    yield race


def _outside(access: Access, loop: te.LoopOp) -> bool:
    """Whether the iterations of a loop share the buffer of an access in it."""
    buffer = access.buffer
    owner = buffer.block.parent_op() if isinstance(buffer, BlockArgument) else buffer.owner
    return not isinstance(owner, Operation) or not loop.is_ancestor(owner) or owner is loop


def _race(loop: te.ParOp, first: Access, second: Access) -> Race | None:
    around = first.domain.loops[: first.domain.loops.index(loop)]
    outer = [one.variable for one in around]
    names = first.domain.named("a", around), second.domain.named("b", around)
    one, other = (name[loop.variable] for name in names)
    apart = f"{one} {'<' if first is second else '!='} {other}"
    pairs = pairs_of(first, second, names)
    found = pairs.first([*(names[0][variable] for variable in outer), one, other], apart)
    if found is None:
        return None
    (*point, p, q), element = found
    values = dict(zip(outer, point, strict=True))
    return Race(loop, values, (p, q), (first, second), tuple(element))


def not_distinct(root: Operation) -> Iterator[tuple[te.BindOp, te.ParOp]]:
    """Writes to elements said to be distinct that all iterations of a loop make to the same one."""
    for bind in root.walk():
        if not isinstance(bind, te.BindOp) or te.DISTINCT not in bind.attributes:
            continue
        decides = [*bind.indices]
        for around in ancestors(bind):
            if isinstance(around, te.ParOp) and around.iterations > 1:
                made = bind.buffer.owner
                is_own = isinstance(made, Operation) and around.is_ancestor(made)
                if not is_own and not _depends(decides, around):
                    yield bind, around
            decides += around.operands


def _depends(values: Sequence[SSAValue], loop: te.ParOp) -> bool:
    """Whether values may differ from iteration to iteration of a loop that they are computed in."""
    if loop.variable in values:
        return True
    inside = [one.owner for one in values if isinstance(one.owner, Operation)]
    return any(
        loop.is_ancestor(owner)
        and (
            not (is_side_effect_free(owner) or isinstance(owner, te.ViewOp | te.IndexOfOp))
            or (isinstance(owner, te.ViewOp) and _is_written(owner.buffer, loop))
            or _depends(owner.operands, loop)
        )
        for owner in inside
    )


def _is_written(buffer: SSAValue, loop: te.ParOp) -> bool:
    uses = (use.operation for use in buffer.uses)
    return any(loop.is_ancestor(use) and not isinstance(use, te.ViewOp) for use in uses)
