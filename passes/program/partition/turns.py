"""In which order a device computes parts, and copies those of others: it does not wait in turn.

A device begins with the part that it has itself where it fetched the others, and ends with its own
where it fetches or delivers them: what goes between devices goes while they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.dialects.sharding import Axes, Mesh, Part, part_of
from mugraph.passes.program.partition.meetings import gives, takes
from mugraph.passes.program.partition.segments import Fetch, Join, Segment, Step, View


def turns_of(steps: Sequence[Step], mesh: Mesh, device: int) -> list[int]:
    """The numbers of the steps in the order in which a device does them."""
    fetched = {step.op.result for step in steps if isinstance(step, Fetch)}

    def kind(number: int) -> tuple[bool, bool]:
        return isinstance(steps[number], Fetch), _part(steps[number]) is not None

    order: list[int] = []
    for (_, in_parts), numbers in groupby(range(len(steps)), kind):
        together = list(numbers)
        if in_parts and not _depend(together_steps := [steps[n] for n in together]):
            takes_fetched = any(not fetched.isdisjoint(takes(each)) for each in together_steps)
            made = {value for each in together_steps for value in gives(each)}
            turn = _Turns(mesh, device, 0 if takes_fetched else 1, made)
            together.sort(key=lambda n: turn.of(steps[n]))
        order += together
    return order


def _part(step: Step) -> Part | None:
    match step:
        case Fetch() | Segment():
            return step.part
        case View(op) | Join(op):
            return part_of(op)
        case _:
            return None


def _together(step: Step) -> tuple[int, int, Axes]:
    part = _part(step)
    assert part is not None
    return part.number, part.members, part.axes


def _depend(steps: Sequence[Step]) -> bool:
    """Whether a part is computed of another one, so that they have an order."""
    return any(
        not set(gives(one)).isdisjoint(takes(other))
        for one in steps
        for other in steps
        if _together(one) != _together(other)
    )


class _Turns(NamedTuple):
    """When parts have their turns on a device."""

    mesh: Mesh
    device: int
    first: int
    """Whether its own part is the first one, 0, or the last one, 1."""
    made: set[SSAValue]
    """What is made in parts."""

    def of(self, step: Step) -> tuple[int, int]:
        """The turn of a part, and of what one of its members has of it."""
        part = _part(step)
        assert part is not None
        place, count = self.mesh.place(self.device, part.axes), self.mesh.size(part.axes)
        own = place // part.members
        behind = (part.place - place - 1) % part.members
        if isinstance(step, Fetch):
            # What is there already is the last one: nobody waits for it.
            is_own = part.place == place
            return count if is_own else (part.number - own) % (count // part.members), behind
        turn = (part.number - own - self.first) % (count // part.members)
        is_sent = isinstance(step, View) and step.op.input in self.made
        return turn, 1 + behind if is_sent else 0
