"""Tensors of the workspace that overlap while both are needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.kn.workspace import places_of
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.memory.lifetimes import tensor_lifetimes, views_of


def find_workspace_hazards(function: FuncOp) -> Iterator[Finding]:
    """Each pair of tensors of the workspace of which a kernel overwrites one too early.

    Launches run one after the other.  A kernel must not write what it, or one of the same launch,
    reads, nor what one behind it reads of an earlier tensor.
    """
    places: dict[SSAValue, range] = {}
    for op in function.walk():
        if isinstance(op, HasWorkspace):
            places |= places_of(op)
    lifetimes = dict(zip(places, tensor_lifetimes(function, list(places)), strict=True))
    launches = launches_of(function.walk())
    for earlier, later in combinations(places, 2):
        first = max(places[earlier].start, places[later].start)
        last = min(places[earlier].stop, places[later].stop) - 1
        if first <= last and lifetimes[earlier].overlaps(lifetimes[later]):
            reader = _reader(earlier, launches[lifetimes[earlier].last])
            yield _finding(earlier, later, reader, first, last)


def _reader(value: SSAValue, launch: list[Operation]) -> Operation:
    """The operator of a launch that reads a tensor: the last one, or else what computes it."""
    views = views_of(value)
    readers = [op for op in launch if any(operand in views for operand in op.operands)]
    return [*launch[:1], *readers][-1]


def _finding(
    earlier: SSAValue, later: SSAValue, reader: Operation, first: int, last: int
) -> Finding:
    writer = later.owner
    assert isinstance(writer, Operation)
    one, other = value_label(earlier), value_label(later)
    if earlier.owner is writer:
        what = f"writes both {one} and {other} to bytes {first} to {last} of the workspace"
    else:
        until = "while it reads it" if reader is writer else f"before {op_label(reader)} reads it"
        what = f"writes {other} to bytes {first} to {last} of the workspace, over {one}, {until}"
    return Finding(
        HazardKind.OVERWRITTEN, (writer, reader), f"{op_label(writer)} {what}", address=first
    )
