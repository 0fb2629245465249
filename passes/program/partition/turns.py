"""In which order a device computes parts, and copies those of others: it does not wait in turn.

A device begins with the part that it has itself where it fetched the others, and ends with its own
where it fetches or delivers them: what goes between devices goes while they compute.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import groupby

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
        together_steps = [steps[n] for n in together]
        if in_parts and _are_of_members(together_steps) and not _depend(together_steps):
            takes_fetched = any(not fetched.isdisjoint(takes(each)) for each in together_steps)
            made = {value for each in together_steps for value in gives(each)}
            first = 0 if takes_fetched else 1
            turns = {n: _turn(steps[n], mesh, device, first, made) for n in together}
            together.sort(key=turns.__getitem__)
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


def _are_of_members(steps: Sequence[Step]) -> bool:
    """Whether parts are of members; stages that all devices do have the order of the program."""
    return all(part.axes for part in map(_part, steps) if part is not None)


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


def _turn(
    step: Step, mesh: Mesh, device: int, first: int, made: Container[SSAValue]
) -> tuple[int, int]:
    """When a part has its turn on a device, and what one of its members has of it.

    The device's own part is the ``first`` one, 0, or the last one, 1.  Parts are ``made`` together.
    """
    part = _part(step)
    assert part is not None
    place, count = mesh.place(device, part.axes), mesh.size(part.axes)
    own = place // part.members
    behind = (part.place - place - 1) % part.members
    if isinstance(step, Fetch):
        # What is there already is the last one: nobody waits for it.
        is_own = part.place == place
        return count if is_own else (part.number - own) % (count // part.members), behind
    turn = (part.number - own - first) % (count // part.members)
    is_sent = isinstance(step, View) and step.op.input in made
    return turn, 1 + behind if is_sent else 0
