"""In which order a device computes parts, and copies those of others: it does not wait in turn.

A device begins with the part that it has itself where it fetched the others, and ends with its own
where it fetches or delivers them: what goes between devices goes while they compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mugraph.dialects.sharding import Mesh, Part
from mugraph.passes.program.partition.meetings import gives, takes
from mugraph.passes.program.partition.segments import Fetch, Segment, Step


def turns_of(steps: Sequence[Step], mesh: Mesh, device: int) -> list[int]:
    """The numbers of the steps in the order in which a device does them."""
    fetched = {step.op.result for step in steps if isinstance(step, Fetch)}

    def kind(number: int) -> tuple[type[Step], bool]:
        return type(steps[number]), _part(steps[number]) is not None

    order: list[int] = []
    for (_, in_parts), numbers in groupby(range(len(steps)), kind):
        together = list(numbers)
        if in_parts and not _depend(together_steps := [steps[n] for n in together]):
            takes_fetched = any(not fetched.isdisjoint(takes(each)) for each in together_steps)
            first = 0 if takes_fetched else 1
            together.sort(key=lambda n: _turn(steps[n], mesh, device, first))
        order += together
    return order


def _part(step: Step) -> Part | None:
    return step.part if isinstance(step, Fetch | Segment) else None


def _depend(steps: Sequence[Step]) -> bool:
    """Whether a part is computed of another one, so that they have an order."""
    return any(
        not set(gives(one)).isdisjoint(takes(other))
        for one in steps
        for other in steps
        if _part(one) != _part(other)
    )


def _turn(step: Step, mesh: Mesh, device: int, first: int) -> int:
    """When a part has its turn, if that of the device itself is the first one or the last one."""
    part = _part(step)
    assert part is not None
    return (part.place - mesh.place(device, part.axes) - first) % mesh.size(part.axes)
